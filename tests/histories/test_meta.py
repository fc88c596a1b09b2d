"""A damaged meta.json is refused with the field by name: judged as it is, it could turn a violation into valid."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from histories.errors import HistoryError
from histories.meta import KeyInfo, Meta, ProducerSettings, TopicSettings

META = Meta(
    run_id="r",
    origin="run",
    keys=(KeyInfo("t", 0), KeyInfo("t", 1, incarnation=1, deleted=True)),
    topics={"t": TopicSettings(2, 3, 2)},
    producers=(ProducerSettings(-1, True, 3, 5),),
    seed=7,
    versions={"target": "x"},
    clock_error_ns={"0": 3},
    expect=("lost-write",),
    counts={"ops": 3},
)


def test_it_reads_back_as_written(tmp_path: Path) -> None:
    META.write(tmp_path / "meta.json")
    assert Meta.read(tmp_path / "meta.json") == META


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ('{"format": 1', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"format": 1, "seed": ' + "9" * 5000 + "}", "not JSON"),
        ('{"format": 1, "keys": [], "keys": []}', "'keys' is there twice"),
        ("[]", "it says no format"),
        ("{}", "it says no format"),
        ('{"format": 2}', "not a history of format 1.*the Tidemark that made it"),
        ('{"format": "1"}', "not a history of format 1"),
    ],
)
def test_what_is_no_meta_at_all(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "meta.json").write_text(text)
    with pytest.raises(HistoryError, match=rf"meta\.json: .*{message}"):
        Meta.read(tmp_path / "meta.json")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "meta.json").mkdir()
    with pytest.raises(HistoryError, match=r"meta\.json: cannot be read: Is a directory"):
        Meta.read(tmp_path / "meta.json")
    (tmp_path / "latin.json").write_bytes(b'{"format": 1, "run_id": "\xff"}')
    with pytest.raises(HistoryError, match="not JSON"):
        Meta.read(tmp_path / "latin.json")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda m: m.pop("keys"), "the field 'keys' is missing"),
        (lambda m: m.update(bogus=1), "unknown field 'bogus'"),
        (lambda m: m.update(keys="abc"), "keys: expected a list, not 'abc'"),
        (lambda m: m.update(keys={}), "keys: expected a list, not an object"),
        (lambda m: m["keys"][1].update(bogus=1), r"unknown field 'keys\[1\]\.bogus'"),
        (lambda m: m["keys"][1].pop("partition"), r"the field 'keys\[1\]\.partition' is missing"),
        (lambda m: m["keys"][1].update(topic="u"), r"keys\[1\]\.topic: 'u' is not among the topics"),
        (lambda m: m["keys"][0].update(deleted=0), r"keys\[0\]\.deleted: expected true or false, not 0"),
        (lambda m: m.update(topics={}), r"keys\[0\]\.topic: 't' is not among the topics"),
        (lambda m: m.update(topics=[]), "topics: expected an object, not a list"),
        (
            lambda m: m["topics"]["t"].update(unclean_leader_election="no"),
            "topics.t.unclean_leader_election: expected true or false, not 'no'",
        ),
        (
            lambda m: m["producers"][0].update(acks="all"),
            r"producers\[0\]\.acks: expected a whole number, not 'all'",
        ),
        (lambda m: m["producers"][0].update(acks=2), r"producers\[0\]\.acks: expected -1 \(all\), 0 or 1, not 2"),
        (lambda m: m["producers"][0].update(acks=True), r"producers\[0\]\.acks: expected a whole number, not True"),
        (
            lambda m: m["producers"][0].update(idempotent="false"),
            r"producers\[0\]\.idempotent: expected true or false",
        ),
        (lambda m: m["producers"].append(None), r"producers\[1\]: expected an object, not None"),
        (lambda m: m.update(seed=1.5), "seed: expected a whole number, not 1.5"),
        (lambda m: m.update(origin="mars"), "origin: expected one of run, synthetic, jepsen, not 'mars'"),
        (lambda m: m.update(expect="lost-write"), "expect: expected a list"),
        (lambda m: m.update(exercise={"min_acknowledged": "many"}), "exercise.min_acknowledged: expected a whole"),
        (lambda m: m["clock_error_ns"].update({"0": "x"}), "clock_error_ns.0: expected a whole number"),
        (lambda m: m["counts"].update(ops=-1), "counts.ops: -1 rows"),
        (lambda m: m["counts"].update(bogus=1), "counts.bogus"),
    ],
)
def test_a_damaged_field_is_named(tmp_path: Path, damage: Callable[[Any], Any], message: str) -> None:
    path = tmp_path / "meta.json"
    META.write(path)
    document = json.loads(path.read_text())
    damage(document)
    path.write_text(json.dumps(document))
    with pytest.raises(HistoryError, match=rf"meta\.json: {message}"):
        Meta.read(path)
