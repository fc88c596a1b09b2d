"""A disk that knows what was synced.

Writes go to the page cache, which survives a killed process. A loss of power keeps what was synced and, of the rest, a
seeded choice: of each file any part of its unsynced tail, to the byte, now and then with zeros where data had been
promised; of overwritten pages the old or the new ones; of each folder's unsynced changes of names the first few. Files
and folders choose on their own: no order between them is kept, as on a real disk.

A node can be struck in the middle of a synchronous section: :meth:`Disk.strike_after_operations` calls the executioner
between two operations on the disk, and ``Killed`` leaves the section. It is no ``Exception``, nothing catches it;
``finally`` blocks that run on its way out find a world in which a dead node can change nothing.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

from system_under_test.simulation.loop import Killed, Node
from system_under_test.simulation.trace import Trace
from system_under_test.world import Buffer

_PAGE_BYTES = 4096
_ZEROS_SHARE = 0.1


class _Content:
    """A file's bytes: in the cache, and on the disk."""

    __slots__ = ("cached", "safe_bytes", "safe_content")

    def __init__(self) -> None:
        self.cached = bytearray()
        self.safe_bytes = 0
        """So much of the start of ``cached`` is on the disk, unless ``safe_content`` says otherwise."""
        self.safe_content: bytes | None = None
        """What is on the disk, kept as soon as something below ``safe_bytes`` changes."""

    def before_change_below(self, position: int) -> None:
        if self.safe_content is None and position < self.safe_bytes:
            self.safe_content = bytes(self.cached[: self.safe_bytes])

    def sync(self) -> None:
        self.safe_bytes = len(self.cached)
        self.safe_content = None

    def lose_power(self, random: Random) -> None:
        if self.safe_content is not None:
            self._mix(self.safe_content, random)
        elif self.safe_bytes < len(self.cached):
            self._cut_tail(random)
        self.sync()

    def _cut_tail(self, random: Random) -> None:
        unsynced = len(self.cached) - self.safe_bytes
        del self.cached[self.safe_bytes + random.randint(0, unsynced) :]
        survived = len(self.cached) - self.safe_bytes
        if survived and random.random() < _ZEROS_SHARE:
            zeros = random.randint(1, survived)
            self.cached[-zeros:] = bytes(zeros)

    def _mix(self, old: bytes, random: Random) -> None:
        new = self.cached
        size = random.choice((len(old), random.randint(min(len(old), len(new)), max(len(old), len(new))), len(new)))
        mixed = bytearray()
        for start in range(0, size, _PAGE_BYTES):
            end = min(start + _PAGE_BYTES, size)
            sources = [each for each in (old, new) if len(each) >= end]
            mixed += random.choice(sources)[start:end] if sources else bytes(end - start)
        self.cached = mixed


class _Folder:
    """Names, and the changes to them that are not on the disk yet: (name, what it now means or None)."""

    __slots__ = ("changes", "names", "safe")

    def __init__(self) -> None:
        self.names: dict[str, _Folder | _Content] = {}
        self.safe: dict[str, _Folder | _Content] = {}
        self.changes: list[tuple[tuple[str, _Folder | _Content | None], ...]] = []

    def change(self, *names: tuple[str, _Folder | _Content | None]) -> None:
        """One atomic change, of one name or two."""
        self.changes.append(names)
        _apply(self.names, names)

    def sync(self) -> None:
        self.safe = dict(self.names)
        self.changes.clear()

    def lose_power(self, random: Random) -> None:
        if self.changes:
            survived = dict(self.safe)
            for change in self.changes[: random.randint(0, len(self.changes))]:
                _apply(survived, change)
            self.names = survived
            self.sync()
        for each in self.names.values():
            each.lose_power(random)


def _apply(names: dict[str, _Folder | _Content], change: tuple[tuple[str, _Folder | _Content | None], ...]) -> None:
    for name, entry in change:
        if entry is None:
            names.pop(name, None)
        else:
            names[name] = entry


class Disk:
    """One host's disk: it outlives the nodes that use it."""

    def __init__(self, host: str, random: Random, trace: Trace) -> None:
        self._host = host
        self._random = random
        self._trace = trace
        self.root = _Folder()
        self.full = False
        self._fuse = 0
        self._struck: Callable[[], None] | None = None

    def lose_power(self) -> None:
        self.root.lose_power(self._random)

    def strike_after_operations(self, operations: int, struck: Callable[[], None]) -> None:
        """Call ``struck``, which must kill the node, just before the operation that follows so many changes."""
        self._fuse, self._struck = operations, struck

    def spare(self) -> None:
        """Forget a strike that has not come."""
        self._struck = None

    def change(self, node: Node, what: str, path: str, size: int = 0) -> None:
        """Every change passes here first."""
        if not node.alive:
            raise Killed
        if self._struck is not None:
            self._fuse -= 1
            if self._fuse < 0:
                struck, self._struck = self._struck, None
                struck()
                if not node.alive:
                    raise Killed
        self._trace.add(self._host, what, path, size)

    def refuse_when_full(self, size: int) -> int:
        """How many of so many bytes can still be written."""
        return self._random.randint(0, size - 1) if self.full and size else size


class SimulatedFile:
    """See :class:`system_under_test.world.File`."""

    __slots__ = ("_content", "_disk", "_node", "_path")

    def __init__(self, disk: Disk, node: Node, path: str, content: _Content) -> None:
        self._disk = disk
        self._node = node
        self._path = path
        self._content: _Content | None = content

    def _open(self) -> _Content:
        if self._content is None:
            raise OSError(errno.EBADF, "the file is closed", self._path)
        return self._content

    def size(self) -> int:
        return len(self._open().cached)

    def read_at(self, position: int, length: int) -> bytes:
        return bytes(self._open().cached[position : position + length])

    def append(self, *buffers: Buffer) -> int:
        content = self._open()
        position = len(content.cached)
        data = bytes(buffers[0]) if len(buffers) == 1 else b"".join(buffers)
        self._disk.change(self._node, "append", self._path, len(data))
        if self._disk.full:
            content.cached += data[: self._disk.refuse_when_full(len(data))]
            raise OSError(errno.ENOSPC, "the disk is full", self._path)
        content.cached += data
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        content = self._open()
        self._disk.change(self._node, "write", self._path, len(data))
        if not data:
            return
        content.before_change_below(position)
        if position > len(content.cached):
            content.cached += bytes(position - len(content.cached))
        content.cached[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        content = self._open()
        self._disk.change(self._node, "truncate", self._path, size)
        content.before_change_below(size)
        if size < len(content.cached):
            del content.cached[size:]
        else:
            content.cached += bytes(size - len(content.cached))

    def sync(self) -> None:
        content = self._open()
        self._disk.change(self._node, "sync", self._path, len(content.cached))
        content.sync()

    def close(self) -> None:
        self._content = None


class SimulatedFiles:
    """The disk as one node sees it. See :class:`system_under_test.world.Files`."""

    def __init__(self, disk: Disk, node: Node) -> None:
        self._disk = disk
        self._node = node

    def _find(self, path: str) -> _Folder | _Content | None:
        entry: _Folder | _Content | None = self._disk.root
        for name in _names(path):
            if not isinstance(entry, _Folder):
                return None
            entry = entry.names.get(name)
        return entry

    def _parent(self, path: str) -> tuple[_Folder, str]:
        parent, _, name = path.rstrip("/").rpartition("/")
        folder = self._find(parent)
        if not isinstance(folder, _Folder):
            raise FileNotFoundError(errno.ENOENT, "no such folder", parent)
        return folder, name

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        content = self._find(path)
        if isinstance(content, _Folder):
            raise IsADirectoryError(errno.EISDIR, "a folder", path)
        if content is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            folder, name = self._parent(path)
            self._disk.change(self._node, "create", path)
            content = _Content()
            folder.change((name, content))
        return SimulatedFile(self._disk, self._node, path, content)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def list(self, folder: str) -> list[str]:
        found = self._find(folder)
        return sorted(found.names) if isinstance(found, _Folder) else []

    def is_folder(self, path: str) -> bool:
        return isinstance(self._find(path), _Folder)

    def make_folder(self, path: str) -> None:
        folder = self._disk.root
        for name in _names(path):
            entry = folder.names.get(name)
            if entry is None:
                self._disk.change(self._node, "mkdir", path)
                entry = _Folder()
                folder.change((name, entry))
            if not isinstance(entry, _Folder):
                raise FileExistsError(errno.EEXIST, "a file is in the way", path)
            folder = entry

    def replace(self, source: str, target: str) -> None:
        from_folder, from_name = self._parent(source)
        to_folder, to_name = self._parent(target)
        entry = from_folder.names.get(from_name)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "no such file or folder", source)
        there = to_folder.names.get(to_name)
        if isinstance(there, _Folder) and (there.names or not isinstance(entry, _Folder)):
            raise OSError(errno.ENOTEMPTY, "a folder is in the way", target)
        self._disk.change(self._node, "rename", source)
        if from_folder is to_folder:
            from_folder.change((from_name, None), (to_name, entry))
        else:
            to_folder.change((to_name, entry))
            from_folder.change((from_name, None))

    def remove(self, path: str) -> None:
        entry = self._find(path)
        if entry is None:
            return
        if isinstance(entry, _Folder):
            for name in sorted(entry.names):
                self.remove(f"{path.rstrip('/')}/{name}")
        self._disk.change(self._node, "remove", path)
        folder, name = self._parent(path)
        folder.change((name, None))

    def lock(self, path: str) -> bool:
        """Nobody else is there: one node at a time runs on a host."""
        self._parent(path)
        return True

    def sync_folder(self, folder: str) -> None:
        found = self._find(folder)
        if not isinstance(found, _Folder):
            raise FileNotFoundError(errno.ENOENT, "no such folder", folder)
        self._disk.change(self._node, "sync folder", folder)
        found.sync()

    def read(self, path: str) -> bytes:
        content = self._find(path)
        if not isinstance(content, _Content):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return bytes(content.cached)

    def write_atomically(self, path: str, content: bytes) -> None:
        beside = f"{path}.tmp"
        file = self.open(beside, create=True)
        file.truncate(0)
        file.append(content)
        file.sync()
        self.replace(beside, path)
        self.sync_folder(path.rpartition("/")[0])


def _names(path: str) -> list[str]:
    return [each for each in path.split("/") if each]
