"""Files on a disk, by file descriptor: a write goes to the page cache, ``sync`` goes to the platter."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Sequence

from system_under_test.world import Buffer

_IOV_MAX = 1024


class RealFile:
    """See :class:`system_under_test.world.File`."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: str, create: bool) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)

    def size(self) -> int:
        # Asked of the kernel each time (a quarter of a microsecond): another handle may have written.
        return os.lseek(self._fd, 0, os.SEEK_END)

    def read_at(self, position: int, length: int) -> bytes:
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        missing = length - len(data)
        while missing and (data := os.pread(self._fd, missing, position + length - missing)):
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def append(self, *buffers: Buffer) -> int:
        position = self.size()
        self._write(buffers, position)
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        self._write((data,), position)

    def _write(self, buffers: Sequence[Buffer], position: int) -> None:
        length = sum(map(len, buffers)) if len(buffers) > 1 else len(buffers[0]) if buffers else 0
        if len(buffers) <= _IOV_MAX:
            written = os.pwritev(self._fd, buffers, position)
            if written == length:
                return
        else:
            written = 0
        rest = memoryview(b"".join(buffers))[written:]
        while rest:
            count = os.pwrite(self._fd, rest, position + length - len(rest))
            if not count:
                raise OSError(errno.EIO, "the file takes no more bytes", self._path)
            rest = rest[count:]

    def lock(self) -> bool:
        """As Java's FileLock does, so that Apache Kafka hears of it, too."""
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise
        return True

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


class RealFiles:
    """See :class:`system_under_test.world.Files`."""

    def __init__(self) -> None:
        self._locked: dict[str, RealFile] = {}

    def open(self, path: str, *, create: bool = False) -> RealFile:
        return RealFile(path, create)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def replace(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass

    def lock(self, path: str) -> bool:
        # Opened once: with any of its descriptors that is closed, a process gives the lock up.
        if path not in self._locked:
            file = RealFile(path, create=True)
            if not file.lock():
                return False
            self._locked[path] = file
        return True

    def sync_folder(self, folder: str) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write_atomically(self, path: str, content: bytes) -> None:
        beside = f"{path}.tmp"
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fdatasync(file.fileno())
        os.replace(beside, path)
        self.sync_folder(os.path.dirname(path))
