"""Import of list-append and rw-register histories."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from histories.errors import HistoryError
from histories.jepsen import import_jepsen
from histories.read import open_history

LISTS = """{:index 0, :time 10, :type :invoke, :process 0, :f :txn, :value [[:append 4 1] [:r 9 nil]]}
{:index 1, :time 11, :type :invoke, :process 1, :f :txn, :value [[:append 4 2]]}
{:index 2, :time 12, :type :info, :process :nemesis, :f :start, :value nil}
{:index 3, :time 13, :type :ok, :process 0, :f :txn, :value [[:append 4 1] [:r 9 [7 -0 8]]]}
{:index 4, :time 14, :type :info, :process 1, :f :txn, :value [[:append 4 2]], :error :timeout}
{:index 5, :time 15, :type :invoke, :process 2, :f :txn, :value [[:r 4 nil]]}
"""


def rows(tmp_path: Path, text: str, name: str = "h.edn") -> tuple[str, list[dict[str, Any]], list[dict[str, Any]]]:
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    import_jepsen(tmp_path / name, tmp_path / "h")
    meta, tables = open_history(tmp_path / "h")
    return meta.workload, pq.read_table(tables["txns"]).to_pylist(), pq.read_table(tables["elements"]).to_pylist()


@pytest.mark.parametrize("name", ["h.edn", "h.edn.gz"])
def test_lists(tmp_path: Path, name: str) -> None:
    workload, txns, elements = rows(tmp_path, LISTS, name)
    assert workload == "append"
    told = [(each["op"], each["process"], each["type"], each["invoke_at"], each["complete_at"]) for each in txns]
    assert told == [(0, 0, "ok", 0, 2), (1, 1, "info", 1, 3), (2, 2, "info", 4, None)]
    assert txns[1]["error"] == "timeout"
    steps = [(each["op"], each["mop"], each["pos"], each["kind"], each["key"], each["value"]) for each in elements]
    assert steps == [
        (0, 0, None, "write", 4, 1),
        (0, 1, 0, "read", 9, 7),
        (0, 1, 1, "read", 9, 0),
        (0, 1, 2, "read", 9, 8),
        (1, 0, None, "write", 4, 2),
    ]


def test_registers_as_json(tmp_path: Path) -> None:
    lines = [
        {"index": 0, "time": 1, "type": "invoke", "process": 0, "f": "txn", "value": [["r", 1, None], ["w", 1, 5]]},
        {"index": 1, "time": 2, "type": "ok", "process": 0, "f": "txn", "value": [["r", 1, None], ["w", 1, 5]]},
        {"index": 2, "time": 3, "type": "invoke", "process": 0, "f": "txn", "value": [["r", 1, None]]},
        {"index": 3, "time": 4, "type": "ok", "process": 0, "f": "txn", "value": [["r", 1, 5]]},
    ]
    workload, _, elements = rows(tmp_path, "\n".join(json.dumps(each) for each in lines), "h.json")
    assert workload == "register"
    assert [(each["op"], each["pos"], each["kind"], each["value"]) for each in elements] == [
        (0, None, "read", None),
        (0, None, "write", 5),
        (1, 0, "read", 5),
    ]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("[[:append 1 2] [:w 1 2]]", "h.edn:2: micro-operation .*expected .:append k v."),
        ("[[:append 1 2] [:r 1 2]]", "h.edn:2: micro-operation .*as in a list-append history"),
        ("[[:append 1 :x]]", "h.edn:2: .*expected values"),
        ("[[:append 1 -2]]", "h.edn:2: .*expected values"),
        ("[[:append :x 2]]", "h.edn:2: micro-operation .*k an integer"),
        ("[[:append 1]]", "h.edn:2: .*expected values"),
        ("[:append 1 2]", "h.edn:2: micro-operation"),
        ("{:append 1}", "h.edn:2: value .*expected a vector"),
        ("[[:append 1 2]", "h.edn:2: not EDN"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, value: str, said: str) -> None:
    head = "{:type :invoke, :process 0, :f :txn, :value [[:append 1 2]]}\n"
    with pytest.raises(HistoryError, match=said):
        rows(tmp_path, head + f"{{:type :ok, :process 0, :f :txn, :value {value}}}\n")
