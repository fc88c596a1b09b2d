"""KIP-101 and KIP-279 on real brokers. One cluster for each kind of broker: the correct one, and one for each bug."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from checkers.replica_logs import first_difference, replica_logs
from histories.build import HistoryBuilder
from tests.chaos.scenarios import kip_101, kip_279
from tests.chaos.stage import Stage, staged

LOSES = "truncate-to-high-watermark"
DIVERGES = "epoch-end-of-next-larger"
KEPT = [b"m1", b"a2", b"a3", b"c4", b"c5", b"c6"]


@pytest.fixture(scope="module")
def correct(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("correct"), []) as stage:
        yield stage


def differences(stage: Stage, topic: str, folder: Path) -> list[tuple[int, int, int]]:
    """Two brokers and the first offset at which they differ, by the checkers' own rule."""
    replicas = stage.replicas(topic)
    assert len(replicas) >= 2
    assert all(len(each.offset) >= 4 for each in replicas.values()), "the scenario left its records"
    b = HistoryBuilder()
    for broker, log in replicas.items():
        columns = zip(log.offset, log.last_offset, log.leader_epoch, log.digest, strict=True)
        batches = [(int(first), int(last), int(epoch), int(digest)) for first, last, epoch, digest in columns]
        b.replica(broker, 0, batches, log.high_watermark, log.log_start)
    b.write(folder / topic)
    found = []
    for one, other in combinations(replica_logs(folder / topic), 2):
        offset = first_difference(one, other)
        if offset is not None:
            found.append((one.broker, other.broker, offset))
    return found


def test_a_correct_cluster_loses_nothing_by_kip_101(correct: Stage, tmp_path: Path) -> None:
    assert kip_101(correct, "kip101") == [b"m1", b"m2", b"m3", b"m4"]
    assert differences(correct, "kip101", tmp_path) == []


def test_a_correct_cluster_does_not_diverge_by_kip_279(correct: Stage, tmp_path: Path) -> None:
    assert kip_279(correct, "kip279") == KEPT
    assert differences(correct, "kip279", tmp_path) == []


def test_truncating_to_the_high_watermark_loses_what_was_acknowledged(tmp_path: Path) -> None:
    with staged(tmp_path, [LOSES]) as stage:
        assert kip_101(stage, "kip101") == [b"m1", b"m3", b"m4"]


def test_the_end_of_a_larger_epoch_makes_replicas_diverge(tmp_path: Path) -> None:
    with staged(tmp_path, [DIVERGES]) as stage:
        assert kip_279(stage, "kip279") == KEPT
        ((_, _, offset),) = differences(stage, "kip279", tmp_path)
        assert offset == 1, "the first record that only one of the leaders had"
