"""Which fleet a run gets: the one that is asked for, or the best one that this machine and this target allow."""

from __future__ import annotations

from dataclasses import dataclass

from harness.fleet import kernel
from harness.fleet.base import Fleet, FleetError
from harness.fleet.probe import REMEDY, probe

NAMESPACES, LOOPBACK = "namespaces", "loopback"


@dataclass(frozen=True)
class Choice:
    kind: str
    why: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.why}"


def choose(wanted: str, unsuited: str | None = None) -> Choice:
    """``unsuited``: why this target cannot do with hosts of their own.

    Where it takes a user namespace, this process enters it here and now: later, when it has several threads, it cannot.
    """
    if wanted == LOOPBACK:
        return Choice(LOOPBACK, "as asked for")
    if unsuited is not None:
        return _without(wanted, unsuited)
    found = probe()
    if found.problem is not None:
        return _without(wanted, f"no hosts of their own here: {found.problem}; {REMEDY}")
    if not kernel.may_make_networks():
        try:
            kernel.become_root_of_a_user_namespace()
        except (FleetError, OSError) as error:
            return _without(wanted, str(error))
    return Choice(NAMESPACES, f"every host has a network of its own ({found.how})")


def _without(wanted: str, why: str) -> Choice:
    if wanted == NAMESPACES:
        raise FleetError(f"the fleet cannot be namespaces: {why}")
    return Choice(LOOPBACK, why)


def make_fleet(choice: Choice) -> Fleet:
    if choice.kind == NAMESPACES:
        # Imported here: pyroute2 takes a quarter of a second, and may not be there where it is not needed.
        from harness.fleet.namespaces import NamespaceFleet

        return NamespaceFleet()
    from harness.fleet.loopback import LoopbackFleet

    return LoopbackFleet()
