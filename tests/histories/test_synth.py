"""Synthetic histories are well-formed and valid; what is injected is there, so often as asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from histories.meta import Meta
from histories.synth import ENTAILS, synthesize
from tests.histories.plain import Plain

NORMAL = {"int-send-skip"}


@pytest.mark.parametrize(
    ("ops", "keys", "rotate"), [(200, 10, 0), (4_000, 10, 0), (3_000, 1, 0), (6_000, 4, 100), (400, 30, 0)]
)
def test_a_healthy_history_has_no_anomaly(tmp_path: Path, ops: int, keys: int, rotate: int) -> None:
    synthesize(tmp_path, ops, keys=keys, rotate=rotate, inject={}, seed=ops)
    plain = Plain(tmp_path)
    assert len(plain.ops) == ops
    plain.assert_well_formed()
    plain.assert_readers_were_assigned()
    assert set(+plain.anomalies()) <= NORMAL


def test_stretches_join_without_a_seam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("histories.synth.generate.STRETCH_OPS", 700)
    synthesize(tmp_path, 6_000, keys=3, rotate=150, inject={}, seed=3)
    plain = Plain(tmp_path)
    assert len(plain.ops) == 6_000
    plain.assert_well_formed()
    plain.assert_readers_were_assigned()
    assert set(+plain.anomalies()) <= NORMAL


def test_a_healthy_history_has_the_shape_of_a_run(tmp_path: Path) -> None:
    meta = synthesize(tmp_path, 20_000, inject={}, seed=5)
    plain = Plain(tmp_path)
    main = [row for row in plain.ops if row["phase"] == "main"]
    kinds = {(row["f"], row["type"]) for row in main}
    assert kinds == {
        ("send", "ok"),
        ("send", "fail"),
        ("send", "info"),
        ("poll", "ok"),
        ("poll", "fail"),
        ("assign", "ok"),
        ("crash", "info"),
    }
    sends = [row for row in plain.sends if row["phase"] == "main"]
    assert 1.2 < len(sends) / sum(row["f"] == "send" for row in main) < 1.4
    read = {row["value"] for row in plain.polls}
    unsure = [row for row in sends if row["status"] == "info"]
    assert 0 < sum(row["value"] in read for row in unsure) < len(unsure)
    assert all(row["complete"] for row in plain.coverage)
    assert len(plain.coverage) == 2 * len(meta.keys)
    assert len({key.topic for key in meta.keys}) == 2
    assert Meta.read(tmp_path / "meta.json") == meta


def test_rotation_gives_each_key_about_so_many_writes(tmp_path: Path) -> None:
    meta = synthesize(tmp_path, 8_000, keys=4, rotate=128, inject={}, seed=1)
    assert len(meta.keys) > 8
    plain = Plain(tmp_path)
    writes = [sum(row["key"] == key for row in plain.sends) for key in range(len(meta.keys))]
    assert max(writes) <= 128 + 1  # and its sentinel


def test_the_seed_decides(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        synthesize(tmp_path / name, 1_000, inject={}, seed=seed)
    first, second, third = (Plain(tmp_path / name) for name in "abc")
    assert first.mops == second.mops
    assert first.mops != third.mops


def test_too_few_operations_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 180"):
        synthesize(tmp_path, 20, inject={}, seed=0)


@pytest.mark.parametrize("name", sorted(ENTAILS))
@pytest.mark.parametrize(("keys", "rotate"), [(10, 0), (2, 250)])
def test_an_injected_anomaly_holds_exactly_so_often(tmp_path: Path, name: str, keys: int, rotate: int) -> None:
    synthesize(tmp_path, 2_500, keys=keys, rotate=rotate, inject={name: 5}, seed=7)
    plain = Plain(tmp_path)
    assert len(plain.ops) == 2_500
    plain.assert_well_formed()
    plain.assert_readers_were_assigned()
    found = plain.anomalies()
    assert found[name] == 5 or (name in NORMAL and found[name] >= 5)
    assert set(+found) <= {name} | ENTAILS[name] | NORMAL


@pytest.mark.parametrize(("seed", "keys", "rotate"), [(0, 6, 300), (1, 1, 0), (2, 20, 0)])
def test_all_anomalies_at_once(
    tmp_path: Path, seed: int, keys: int, rotate: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("histories.synth.generate.STRETCH_OPS", 4_000)
    inject = {name: 1 + number % 4 for number, name in enumerate(sorted(ENTAILS))}
    synthesize(tmp_path, 9_000, keys=keys, rotate=rotate, inject=inject, seed=seed)
    plain = Plain(tmp_path)
    plain.assert_well_formed()
    plain.assert_readers_were_assigned()
    found = plain.anomalies()
    entailed = frozenset[str]().union(*ENTAILS.values()) | NORMAL
    assert {name: found[name] for name in inject if name not in entailed} == {
        name: count for name, count in inject.items() if name not in entailed
    }
    assert all(found[name] >= inject[name] for name in entailed)


def test_an_unknown_anomaly_is_refused_with_the_nearest_names(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lost-write"):
        synthesize(tmp_path, 1_000, inject={"lost-writes": 1}, seed=0)


def test_too_many_cases_are_refused_with_how_many_fit(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="12 fit"):
        synthesize(tmp_path, 1_000, inject={"duplicate": 50}, seed=0)
