"""What a broker may rely on of a file system, asked of a disk and of the simulation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from system_under_test.realworld.files import RealFiles
from system_under_test.simulation.world import Simulation
from system_under_test.world import Files
from tests.system_under_test.worlds.arena import Arena


def _with_files(arena: Arena, check: Callable[[Files, str], None]) -> None:
    async def scenario(arena: Arena) -> None:
        world = await arena.world("disk")
        folder = arena.folder().rstrip("/") + "/data"
        world.files.make_folder(folder)
        check(world.files, folder)

    arena.run(scenario)


def test_a_file_grows_at_its_end_and_is_read_anywhere(plain_arena: Arena) -> None:
    def check(files: Files, folder: str) -> None:
        file = files.open(f"{folder}/a", create=True)
        assert file.size() == 0
        assert file.append(b"abc", bytearray(b"de"), memoryview(b"f")) == 0
        assert file.append(b"gh") == 6
        assert file.append() == 8
        assert (file.size(), file.read_at(2, 4), file.read_at(6, 100), file.read_at(8, 1)) == (8, b"cdef", b"gh", b"")
        file.write_at(1, b"XY")
        file.write_at(10, b"!")
        assert file.read_at(0, 100) == b"aXYdefgh\0\0!"
        file.truncate(3)
        assert file.append(b"z") == 3
        file.truncate(6)
        assert files.read(f"{folder}/a") == b"aXYz\0\0"
        file.sync()
        other = files.open(f"{folder}/a")
        other.append(b"+")
        assert file.size() == 7
        file.close()
        file.close()
        assert other.read_at(6, 1) == b"+"
        other.append(*[b"x"] * 3000)
        assert other.size() == 3007
        other.close()
        with pytest.raises(OSError, match=r"closed|[Bb]ad file"):
            other.size()

    _with_files(plain_arena, check)


def test_names(plain_arena: Arena) -> None:
    def check(files: Files, folder: str) -> None:
        with pytest.raises(FileNotFoundError):
            files.open(f"{folder}/a")
        with pytest.raises(FileNotFoundError):
            files.open(f"{folder}/no/a", create=True)
        with pytest.raises(FileNotFoundError):
            files.read(f"{folder}/a")
        with pytest.raises(FileNotFoundError):
            files.replace(f"{folder}/a", f"{folder}/b")
        assert files.list(f"{folder}/no") == []
        files.make_folder(f"{folder}/x/y")
        files.make_folder(f"{folder}/x/y")
        kept = files.open(f"{folder}/x/y/b", create=True)
        kept.append(b"kept")
        files.open(f"{folder}/x/a", create=True).close()
        assert files.list(f"{folder}/x") == ["a", "y"]
        assert (files.is_folder(f"{folder}/x/y"), files.is_folder(f"{folder}/x/a")) == (True, False)
        assert (files.exists(f"{folder}/x/a"), files.exists(f"{folder}/x/b")) == (True, False)
        files.replace(f"{folder}/x/y", f"{folder}/x/z")
        kept.append(b" on")
        files.replace(f"{folder}/x/z/b", f"{folder}/x/a")
        assert files.read(f"{folder}/x/a") == b"kept on"
        assert files.list(f"{folder}/x") == ["a", "z"]
        files.sync_folder(f"{folder}/x")
        files.remove(f"{folder}/x")
        files.remove(f"{folder}/x")
        assert not files.exists(f"{folder}/x/a")
        kept.append(b", even without a name")
        assert kept.size() == 28
        assert files.list(folder) == []
        with pytest.raises(FileNotFoundError):
            files.sync_folder(f"{folder}/x")

    _with_files(plain_arena, check)


def test_writing_atomically(plain_arena: Arena) -> None:
    def check(files: Files, folder: str) -> None:
        files.write_atomically(f"{folder}/c", b"one, and long")
        files.write_atomically(f"{folder}/c", b"two")
        assert files.read(f"{folder}/c") == b"two"
        assert files.list(folder) == ["c"]

    _with_files(plain_arena, check)


_NAMES = st.sampled_from(["a", "b", "c"])
_OPERATIONS = st.one_of(
    st.tuples(st.just("append"), _NAMES, st.binary(max_size=9)),
    st.tuples(st.just("write"), _NAMES, st.integers(0, 12), st.binary(max_size=5)),
    st.tuples(st.just("truncate"), _NAMES, st.integers(0, 20)),
    st.tuples(st.just("rename"), _NAMES, _NAMES),
    st.tuples(st.just("remove"), _NAMES),
    st.tuples(st.just("sync"), _NAMES),
    st.tuples(st.just("sync folder")),
)


def _carry_out(files: Files, folder: str, operation: tuple[object, ...]) -> str:
    path = f"{folder}/{operation[1]}" if len(operation) > 1 else ""
    match operation:
        case ("append", _, bytes(data)):
            files.open(path, create=True).append(data)
        case ("write", _, int(position), bytes(data)):
            files.open(path, create=True).write_at(position, data)
        case ("truncate", _, int(size)):
            files.open(path, create=True).truncate(size)
        case ("rename", _, target):
            try:
                files.replace(path, f"{folder}/{target}")
            except FileNotFoundError:
                return "no such file"
        case ("remove", _):
            files.remove(path)
        case ("sync", _):
            files.open(path, create=True).sync()
        case ("sync folder",):
            files.sync_folder(folder)
    return str([(name, files.read(f"{folder}/{name}")) for name in files.list(folder)])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(_OPERATIONS, max_size=25), seed=st.integers(0, 1000))
def test_both_worlds_show_the_same_files(
    operations: list[tuple[object, ...]], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    real, folder = RealFiles(), str(tmp_path_factory.mktemp("files"))
    with Simulation(seed) as simulation:
        simulated = simulation.host("disk").boot().files
        simulated.make_folder(folder)
        for operation in operations:
            assert _carry_out(real, folder, operation) == _carry_out(simulated, folder, operation)
