"""Jepsen's histories: what is read, what is refused and how, and that export and import are inverse."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from histories.errors import HistoryError
from histories.jepsen import export_jepsen, import_jepsen, original_value
from histories.meta import Meta
from histories.read import open_history
from histories.schema import TABLES
from histories.synth import synthesize
from tests.histories.plain import Plain

FIXTURES = Path(__file__).parent.parent / "fixtures" / "jepsen"
ASSIGN = """{:index 0, :time 1, :type :invoke, :process 1, :f :assign, :value [3 7]}
{:index 1, :time 2, :type :ok, :process 1, :f :assign, :value [3 7]}
"""


def imported(tmp_path: Path, text: str, name: str = "h.edn") -> tuple[Plain, Meta]:
    (tmp_path / name).write_text(text)
    out = tmp_path / f"{name}.history"
    meta = import_jepsen(tmp_path / name, out)
    return Plain(out), meta


def refused(tmp_path: Path, text: str, name: str = "h.edn") -> str:
    (tmp_path / name).write_text(text)
    with pytest.raises(HistoryError) as error:
        import_jepsen(tmp_path / name, tmp_path / "out")
    assert not (tmp_path / "out" / "meta.json").exists()
    return str(error.value)


def rows_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {name: pq.read_table(folder / name).to_pylist() for name in TABLES}


# Reference


@pytest.mark.parametrize(
    ("name", "anomaly"),
    [
        ("k-duplicate", "duplicate"),
        ("k-g1a", "aborted-read"),
        ("k-int-poll-skip", "int-poll-skip"),
        ("k-lost-write", "unseen"),  # without a scan, a plain loop does not prove a loss
        ("k-nonmonotonic-poll", "nonmonotonic-poll"),
        ("k-unseen", "unseen"),
        ("k-g1c", None),
    ],
)
def test_reference_histories_keep_their_one_anomaly(tmp_path: Path, name: str, anomaly: str | None) -> None:
    meta = import_jepsen(FIXTURES / f"{name}.edn.gz", tmp_path / "out")
    plain = Plain(tmp_path / "out")
    plain.assert_well_formed()
    assert meta.origin == "jepsen"
    assert +plain.anomalies() == (Counter([anomaly]) if anomaly else Counter())


# What is read


def test_sends_polls_and_transactions(tmp_path: Path) -> None:
    plain, meta = imported(
        tmp_path,
        ASSIGN
        + """{:index 2, :time 5, :type :invoke, :process 0, :f :send, :value [[:send 3 1]]}
{:index 3, :time 6, :type :invoke, :process 1, :f :txn, :value [[:poll] [:send 7 1]]}
{:index 4, :time 9, :type :ok, :process 0, :f :send, :value [[:send 3 [10 1]]]}
{:index 5, :time 12, :type :ok, :process 1, :f :txn, :value [[:poll {3 [[10 1]], 7 [[0 5] [2 6]]}] [:send 7 [nil 1]]]}
""",
    )
    assert [key.partition for key in meta.keys] == [3, 7]
    assign, send, txn = plain.ops
    assert (assign["f"], send["invoke_ns"], send["complete_ns"]) == ("assign", 5, 9)
    assert (txn["f"], txn["isolation"], txn["commit_ns"]) == ("txn", "read_committed", None)
    rows = [
        (row["kind"], row["mop"], row["pos"], row["key"], row["offset"], original_value(meta, row["key"], row["value"]))
        for row in plain.mops
        if row["kind"] != "seek"
    ]
    assert rows == [
        ("send", 0, 0, 0, 10, 1),
        ("poll", 0, 0, 0, 10, 1),
        ("poll", 0, 1, 1, 0, 5),
        ("poll", 0, 2, 1, 2, 6),
        ("send", 1, 0, 1, None, 1),
    ]
    assert len({row["value"] for row in plain.sends}) == 2


def test_an_operation_without_completion_is_info_with_what_it_asked_for(tmp_path: Path) -> None:
    plain, _ = imported(
        tmp_path,
        """{:index 0, :time 1, :type :invoke, :process 0, :f :send, :value [[:send 0 1]]}
{:index 1, :time 2, :type :invoke, :process 1, :f :send, :value [[:send 0 2]]}
{:index 2, :time 3, :type :info, :process 1, :f :send, :value nil, :error [:timeout "x"]}
""",
    )
    assert [(row["type"], row["complete_ns"]) for row in plain.ops] == [("info", None), ("info", 3)]
    assert [(row["value"], row["offset"], row["status"]) for row in plain.sends] == [
        (1, None, "info"),
        (2, None, "info"),
    ]
    assert "timeout" in plain.ops[1]["error"]


def test_new_positions(tmp_path: Path) -> None:
    lines = [
        ("assign", [1, 2], {}),
        ("assign", [2, 3], {}),
        ("assign", [1, 2], {}),
        ("poll", [["poll", {"1": [[0, 1]]}], ["poll", {"2": [[0, 1]]}]], {"rebalance-log": [{"keys": [2]}]}),
        ("subscribe", [9], {}),
        ("poll", [["poll", {"5": [[0, 1]]}]], {}),
        ("subscribe", [9], {}),
    ]
    text = "".join(
        json.dumps({"type": type_, "process": 0, "f": f, "value": value, **more}) + "\n"
        for f, value, more in lines
        for type_ in ("invoke", "ok")
    )
    plain, meta = imported(tmp_path, text, "h.json")
    found: dict[int, list[int]] = {row["op"]: [] for row in plain.ops}
    for row in plain.mops:
        if row["kind"] == "seek":
            found[row["op"]].append(meta.keys[row["key"]].partition)
    # In the fourth, before each of two polls; the last also ends what was polled without being named.
    assert list(found.values()) == [[1, 2], [3], [1], [2, 2], [1, 2, 9], [], [1, 2, 5, 9]]


def test_the_nemesis_becomes_events_and_other_operations_are_left_out(tmp_path: Path) -> None:
    plain, _ = imported(
        tmp_path,
        ASSIGN
        + """{:index 2, :time 3, :type :info, :process :nemesis, :f :kill, :value ["n1"]}
{:index 3, :time 4, :type :invoke, :process 1, :f :debug-topic-partitions, :value [3]}
{:index 4, :time 5, :type :ok, :process 1, :f :debug-topic-partitions, :value {3 {:x #{1 2}}}}
""",
    )
    assert len(plain.ops) == 1
    assert [(row["time_ns"], row["kind"]) for row in plain.events] == [(3, "nemesis")]
    assert "kill" in plain.events[0]["detail"]


@pytest.mark.parametrize("form", ["vector", "one-line vector", "json", "json array", "other layout", "records", "gz"])
def test_all_forms_of_a_file_say_the_same(tmp_path: Path, form: str) -> None:
    source = FIXTURES / "k-duplicate.edn.gz"
    import_jepsen(source, tmp_path / "expected")
    text = gzip.decompress(source.read_bytes()).decode()
    export_jepsen(tmp_path / "expected", tmp_path / "h.json")
    documents = (tmp_path / "h.json").read_text().splitlines()
    name, text = {
        "vector": ("a.edn", "[" + text.rstrip("\n") + "]\n"),
        "one-line vector": ("a.edn", "[" + text.replace("\n", " ") + "]"),
        "json": ("a.json", "\n".join(documents)),
        "json array": ("a.json", "[" + ",\n".join(documents) + "]"),
        "other layout": (
            "a.edn",
            "".join(
                "{" + f":type {d[2]}, :f {d[4]}, :value {d[5]}, :time {d[1]}, :process {d[3]}, :index {d[0]}" + "}\n"
                for d in map(_cut, text.splitlines())
            ),
        ),
        "records": ("a", "\n\n; a comment\n" + text.replace("{:index", "#jepsen.history.Op{:index")),
        "gz": ("a.edn", text),
    }[form]
    (tmp_path / name).write_text(text)
    import_jepsen(tmp_path / name, tmp_path / "out")
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "expected")


def _cut(line: str) -> list[str]:
    names = (":index ", ", :time ", ", :type ", ", :process ", ", :f ", ", :value ")
    parts = []
    rest = line[1:-1]
    for name in names:
        before, _, rest = rest.partition(name)
        parts.append(before)
    return [*parts[1:], rest]


def test_chunks_join_without_a_seam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks, in several processes; some operations stay open over many of them."""
    synthesize(tmp_path / "made", 1_500, inject={}, seed=2)
    export_jepsen(tmp_path / "made", tmp_path / "h.edn")
    lines = (tmp_path / "h.edn").read_text().splitlines(keepends=True)
    early = "{:index 0, :time 0, :type :invoke, :process 99999, :f :send, :value [[:send 0 77777]]}\n"
    late = early.replace(":invoke", ":ok").replace("0 77777", "0 [9999 77777]")
    (tmp_path / "h.edn").write_text("".join([early, *lines, late]))
    import_jepsen(tmp_path / "h.edn", tmp_path / "whole")
    monkeypatch.setattr("histories.jepsen.source.CHUNK", 20_000)
    import_jepsen(tmp_path / "h.edn", tmp_path / "cut")
    assert rows_of(tmp_path / "cut") == rows_of(tmp_path / "whole")
    assert rows_of(tmp_path / "cut")["ops"][0]["type"] == "ok"


# What is refused

SEND = "{:index 0, :time 1, :type :invoke, :process 0, :f :send, :value [[:send 0 1]]}\n"
SENT = "{:index 1, :time 2, :type :ok, :process 0, :f :send, :value [[:send 0 [4 1]]]}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        (SENT, "h.edn:1: process 0 completes, but has no open operation"),
        (SEND + SENT + SENT, "h.edn:3: process 0 completes, but has no open operation"),
        (SEND + SEND, "h.edn:2: process 0 invokes, but its operation of line 1 is open"),
        (SEND + SENT + SEND + SENT, "h.edn:3: value 1 is sent to key 0 again, after line 1"),
        (SEND + SENT.replace(":f :send", ":f :poll"), "h.edn:2: process 0 completes poll, but it invoked send"),
        (SEND + SENT[:50] + "\n", "h.edn:2: not EDN"),
        (SEND + "[1 2]\n", "h.edn:2: not an operation"),
        (SEND + SENT.replace(":ok", ":okay"), "h.edn:2: type 'okay'; expected invoke, ok, fail or info"),
        (SEND.replace("[:send 0 1]", "[:append 0 1]"), "h.edn:1: micro-operation .*not a Kafka workload"),
        (SEND.replace("[:send 0 1]", "[:send 0 1 2 3]"), "h.edn:1: .*expected .:send k v."),
        (SEND.replace("[:send 0 1]", "[:send 0 -1]"), "h.edn:1: value -1; expected 0 <= value"),
        (SEND.replace("[:send 0 1]", '[:send "a" 1]'), "h.edn:1: .*expected an integer key"),
        (SEND.replace("[[:send 0 1]]", "[[:poll {0 [[1]]}]]"), r"h.edn:1: record \[1\]; expected \[offset v\]"),
        (SEND.replace("[[:send 0 1]]", "[[:poll {0 7}]]"), "h.edn:1: records 7"),
        (SEND.replace(":process 0", ":process 99999999999"), "h.edn:1: process 99999999999"),
        (SEND.replace(":time 1", ":time -1"), "h.edn:1: time -1"),
        (SEND.replace("0 1]", "0 99999999999999999999999]"), "beyond 64 bits"),
        (SEND.replace("[[:send 0 1]]", "[1 2]"), "h.edn:1: send of .1 2.; expected micro-operations"),
        (SEND + SEND.replace("0, :f :send", "1, :f :assign"), "h.edn:2: assign of .*expected .* keys for assign"),
        ("[" + SEND, "h.edn:2: the vector is never closed"),
        ("[" + SEND + SENT[:40], "h.edn:2: the vector is never closed"),
        (SEND + SENT[:-3], "h.edn:2: not EDN"),
        (SEND + SENT.replace("}", ", :retried 3}"), "h.edn:2: unknown field retried; expected .*rebalance-log"),
        (SEND + SENT.replace("}", ", :type :fail}"), "h.edn:2: not EDN: a map with the same key twice"),
        (SEND.replace("[[:send 0 1]]", "[[:send 0 1] [:send 0 1]]"), "h.edn:1: value 1 is sent to key 0 again"),
        ("[" + SEND + "]" + SEND, "more after the end"),
        ("{:type :invoke, :process 0, :f :read, :value nil}\n", "no operation of a Kafka workload"),
        ("{:type :invoke, :process 0, :f :send, :value " + "[" * 5000 + "}", "nested deeper"),
    ],
)  # fmt: skip
def test_bad_histories_are_refused_with_their_line(tmp_path: Path, text: str, said: str) -> None:
    assert re.search(said, refused(tmp_path, text))


def test_bad_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HistoryError, match="no such file"):
        import_jepsen(tmp_path / "none.edn", tmp_path / "out")
    whole = (FIXTURES / "k-duplicate.edn.gz").read_bytes()
    for name, content in (
        ("cut", whole[: len(whole) // 2]),
        ("not", b"{:index 0}\n"),
        ("broken", whole[:40] + b"?" * 99),
    ):
        (tmp_path / f"{name}.edn.gz").write_bytes(content)
        with pytest.raises(HistoryError, match=rf"{name}.edn.gz:\d+: damaged or cut off gzip"):
            import_jepsen(tmp_path / f"{name}.edn.gz", tmp_path / "out")
    (tmp_path / "bytes.edn").write_bytes(SEND.encode() + b"\xff\xfe\n")
    with pytest.raises(HistoryError, match=r"bytes.edn:2: not UTF-8"):
        import_jepsen(tmp_path / "bytes.edn", tmp_path / "out")
    monkeypatch.setattr("histories.jepsen.source.MAX_LINE", 5_000)
    monkeypatch.setattr("histories.jepsen.source.CHUNK", 1_000)
    for filler in ("1" * 50_000, '"' + "x" * 50_000, "[" * 50_000):
        for text in (SEND + "{" + filler, "[" + SEND + "{" + filler):
            said = refused(tmp_path, text)
            assert "h.edn:2: longer than" in said
            assert "without an end; expected one operation per line" in said
    with pytest.raises(HistoryError, match=r"expected a name that ends in \.edn"):
        export_jepsen(tmp_path, tmp_path / "out.txt")


def test_what_is_wrong_with_json_lines_is_said_too(tmp_path: Path) -> None:
    send = '{"type": "invoke", "process": 0, "f": "send", "value": [["send", 0, 1]]}\n'
    sent = send.replace("invoke", "ok")
    for text, said in (
        (send + sent[:-9], "h.json:2: not JSON"),
        (send + sent + sent, "h.json:3: process 0 completes, but has no open operation"),
        (send + sent + send, "h.json:3: value 1 is sent to key 0 again, after line 1"),
        (send + sent.replace('"f"', '"retried": 3, "f"'), "h.json:2: unknown field retried"),
        (send + sent.replace('"f"', '"type": "fail", "f"'), "h.json:2: not JSON: an object with the same key twice"),
        ("[" + send + ",", "h.json:2: the vector is never closed"),
    ):
        assert said in refused(tmp_path, text, "h.json")


def test_of_several_bad_lines_the_first_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when a later one is parsed earlier."""
    monkeypatch.setattr("histories.jepsen.source.CHUNK", 500)
    good = "".join(
        SEND.replace("0 1]", f"0 {value}]") + SENT.replace("[4 1]", f"[4 {value}]") for value in range(2, 200)
    )
    assert "h.edn:397: not EDN" in refused(tmp_path, good + "{:bad\n" * 200)


# There and back


@st.composite
def jepsen_histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Lines of a small history: up to four processes, each with one operation open at a time."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    open_: dict[int, dict[str, Any]] = {}
    lines: list[dict[str, Any]] = []
    values = dict.fromkeys((0, 3, -4), 0)
    for index in range(draw(st.integers(1, 40))):
        process = rng.randrange(4)
        line: dict[str, Any] = {"index": index, "time": index * 10, "process": process}
        if process in open_:
            line |= _completion(rng, open_.pop(process))
        else:
            line |= _invocation(rng, values)
            open_[process] = line
        lines.append(line)
    return lines


def _invocation(rng: random.Random, values: dict[int, int]) -> dict[str, Any]:
    f = rng.choice(["send", "poll", "txn", "assign", "subscribe", "crash"])
    if f in ("assign", "subscribe"):
        return {"type": "invoke", "f": f, "value": rng.sample(sorted(values), rng.randrange(1, 4))}
    if f == "crash":
        return {"type": "invoke", "f": f, "value": None}
    steps: list[list[Any]] = []
    for _ in range(rng.randrange(1, 4)):
        if f == "poll" or (f == "txn" and rng.random() < 0.5):
            steps.append(["poll"])
        else:
            key = rng.choice(sorted(values))
            values[key] += 1
            steps.append(["send", key, values[key]])
    return {"type": "invoke", "f": f, "value": steps}


def _completion(rng: random.Random, line: dict[str, Any]) -> dict[str, Any]:
    type_ = "info" if line["f"] == "crash" else rng.choice(["ok", "ok", "ok", "fail", "info"])
    value = line["value"]
    if line["f"] in ("send", "poll", "txn") and type_ == "ok":
        value = [
            ["send", step[1], [rng.choice([None, rng.randrange(99)]), step[2]]]
            if step[0] == "send"
            else ["poll", {str(key): [[rng.randrange(99), rng.randrange(9)]] for key in rng.sample([0, 3, -4], 2)}]
            for step in value
        ]
    return {"type": type_, "f": line["f"], "value": value}


@given(lines=jepsen_histories(), suffix=st.sampled_from([".edn", ".json", ".jsonl.gz", ".edn.gz"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_history_survives_export_and_import(
    tmp_path_factory: pytest.TempPathFactory, lines: list[dict[str, Any]], suffix: str
) -> None:
    folder = tmp_path_factory.mktemp("trip")
    (folder / "h.json").write_text("\n".join(map(json.dumps, lines)))
    import_jepsen(folder / "h.json", folder / "first")
    export_jepsen(folder / "first", folder / f"again{suffix}")
    import_jepsen(folder / f"again{suffix}", folder / "second")
    first, second = _original(folder / "first"), _original(folder / "second")
    # Our tables do not say which keys an assignment gave up, so a subscribe behind it starts anew in these too.
    before, after = _taken_out(first["mops"]), _taken_out(second["mops"])
    assert before <= after
    assert first == second


def _original(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Rows with the keys and values of the file: a key that was only asked for has no place of its own."""
    meta = Meta.read(folder / "meta.json")
    rows = rows_of(folder)
    for row in rows["mops"]:
        if row["value"] is not None:
            row["value"] = original_value(meta, row["key"], row["value"])
        row["key"] = meta.keys[row["key"]].partition
    return rows


def _taken_out(mops: list[dict[str, Any]]) -> set[tuple[int, int]]:
    """The new positions of subscribes, and remove them."""
    seeks = [row for row in mops if row["f"] == "subscribe" and row["kind"] == "seek"]
    mops[:] = [row for row in mops if row not in seeks]
    return {(row["op"], row["key"]) for row in seeks}


def test_a_synthetic_history_keeps_its_anomalies(tmp_path: Path) -> None:
    inject = {"duplicate": 2, "poll-skip": 3, "realtime-order": 1}
    synthesize(tmp_path / "made", 3_000, inject=inject, seed=9)
    export_jepsen(tmp_path / "made", tmp_path / "h.edn.gz")
    import_jepsen(tmp_path / "h.edn.gz", tmp_path / "out")
    before, after = Plain(tmp_path / "made").anomalies(), Plain(tmp_path / "out").anomalies()
    assert {name: after[name] for name in ("duplicate", "realtime-order")} == {"duplicate": 2, "realtime-order": 1}
    assert after["poll-skip"] == before["poll-skip"]


def test_an_import_is_a_sealed_history(tmp_path: Path) -> None:
    import_jepsen(FIXTURES / "k-unseen.edn.gz", tmp_path / "out")
    meta, _ = open_history(tmp_path / "out")
    assert meta.counts["ops"] > 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted([*TABLES, "meta.json"])
