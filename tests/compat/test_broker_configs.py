"""``tidemark configs --broker`` against real brokers: one broker's settings, everybody's, and what is refused."""

from __future__ import annotations

import pytest

from harness.cli import main as tidemark
from harness.targets.shipped import ShippedTarget


def run(cluster: ShippedTarget, verb: str, broker: str, *rest: str) -> int:
    return tidemark(["configs", verb, "--bootstrap", cluster.bootstrap, "--broker", broker, *rest])


def test_one_broker_and_all(cluster: ShippedTarget, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cluster, "alter", "1", "--add", "log.retention.ms=5000000") == 0
    assert run(cluster, "alter", "", "--add", "log.retention.ms=6000000", "--add", "message.max.bytes=2000000") == 0
    said = capsys.readouterr().out
    assert said == "Completed updating config for broker 1.\nCompleted updating config for all brokers.\n"
    found = {}
    for broker in ("0", "1", ""):
        assert run(cluster, "describe", broker) == 0
        found[broker] = capsys.readouterr().out.splitlines()
    assert found == {
        "0": [],
        "1": ["log.retention.ms=5000000"],
        "": ["log.retention.ms=6000000", "message.max.bytes=2000000"],
    }
    assert run(cluster, "alter", "1", "--delete", "log.retention.ms") == 0
    assert run(cluster, "alter", "", "--delete", "log.retention.ms", "--delete", "message.max.bytes") == 0
    capsys.readouterr()
    assert run(cluster, "describe", "1") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("broker", "setting", "said"),
    [
        ("1", "broker.id=7", "1: invalid_request: Cannot update these configs dynamically: broker.id"),
        ("1", "log.retention.msec=7", "did you mean 'log.retention.ms'?"),
        ("", "message.max.bytes=many", "all brokers: invalid_request"),
        ("7", "message.max.bytes=7", "broker 7 is not there; there are 0,1,2"),
        ("one", "message.max.bytes=7", "expected a broker's id"),
    ],
)
def test_refusals(
    cluster: ShippedTarget, capsys: pytest.CaptureFixture[str], broker: str, setting: str, said: str
) -> None:
    assert run(cluster, "alter", broker, "--add", setting) != 0
    assert said in capsys.readouterr().err
