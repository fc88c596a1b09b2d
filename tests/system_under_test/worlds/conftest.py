from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from checkers.java import find_java
from harness.fleet.loopback import LoopbackFleet
from harness.targets.zookeeper import ZooKeeper
from tests.system_under_test.worlds.arena import Arena, RealArena, SimulatedArena


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server, once for all tests: each test works below a folder of its own name."""
    folder = tmp_path_factory.mktemp("zookeeper")
    with LoopbackFleet(folder / "registry") as fleet:
        server = ZooKeeper(fleet, find_java(), folder / "logs", folder / "data")
        server.start()
        yield server.connect
        server.stop()


@pytest.fixture(params=["simulated", "real"])
def arena(request: pytest.FixtureRequest, tmp_path: Path) -> Arena:
    """With ZooKeeper."""
    if request.param == "simulated":
        return SimulatedArena(seed=7)
    return RealArena(request.getfixturevalue("zookeeper"), tmp_path, use_uvloop=False)


@pytest.fixture(params=["simulated", "asyncio", "uvloop"])
def plain_arena(request: pytest.FixtureRequest, tmp_path: Path) -> Arena:
    """Without ZooKeeper, on both real loops."""
    if request.param == "simulated":
        return SimulatedArena(seed=7)
    return RealArena("", tmp_path, use_uvloop=request.param == "uvloop")


@pytest.fixture
def root(request: pytest.FixtureRequest) -> str:
    """A node of ZooKeeper's that belongs to this test alone."""
    name = request.node.name.translate(str.maketrans("[]", "__"))
    return f"/{name}"
