"""The kernel's namespaces as far as fleets need them: what Python has only since 3.12, and the rights to use it.

A network namespace belongs to a *thread*: the one that makes or enters it, and whatever that thread starts from
then on (threads, processes, sockets). It lives as long as somebody is in it or holds it open; so a namespace that is
held by a file descriptor of the harness, and by no name in the file system, is gone when the harness is.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from harness.fleet.base import FleetError

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_CAP_SYS_ADMIN = 21

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def new_network() -> int:
    """Put the calling thread into a new, empty network; a file descriptor that keeps it."""
    _checked(_libc.unshare(_CLONE_NEWNET), "unshare(CLONE_NEWNET)")
    return current_network()


def current_network() -> int:
    """A file descriptor that keeps the calling thread's network."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter_network(namespace: int) -> None:
    """Put the calling thread into this network."""
    _checked(_libc.setns(namespace, _CLONE_NEWNET), "setns")


def may_make_networks() -> bool:
    """Whether this process has the right already: root, or inside of a user namespace of its own."""
    for line in Path("/proc/thread-self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


def become_root_of_a_user_namespace() -> None:
    """Give this process the right to make networks of its own, and no other right over the machine.

    Its user and group stay what they are, so files belong to the same person. Programs that it starts get none of the
    rights. There is no way back, and the kernel allows it only before a second thread is started.
    """
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise FleetError(f"a user namespace can be entered by a process of one thread only, not {threads}")
    user, group = os.geteuid(), os.getegid()
    _checked(_libc.unshare(_CLONE_NEWUSER), "unshare(CLONE_NEWUSER)")
    # Without this, whoever is kept out of a file by a group could drop the group.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
