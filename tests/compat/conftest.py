"""One cluster of three brokers for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.fleet.loopback import LoopbackFleet
from harness.plan import TargetPlan
from harness.targets.shipped import ShippedTarget


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShippedTarget]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    with LoopbackFleet(folder / "registry") as fleet:
        target = ShippedTarget(
            TargetPlan(kind="shipped", brokers=3), logs=folder / "logs", data=folder / "data", fleet=fleet
        )
        try:
            target.start()
            yield target
        finally:
            target.stop()


@pytest.fixture(scope="package")
def bootstrap(cluster: ShippedTarget) -> str:
    return cluster.bootstrap
