"""Every fault there is, by kind; which of them can be done here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nemesis.control import NodeControl
from nemesis.fault import Fault, Kind
from nemesis.network import NETWORK_FAULTS
from nemesis.processes import PROCESS_FAULTS

FAULTS: dict[Kind, Fault] = {fault.kind: fault for fault in (*PROCESS_FAULTS, *NETWORK_FAULTS)}


def unavailable(kinds: Iterable[str], control: NodeControl) -> dict[str, str]:
    """Those of these kinds that cannot be done here, each with the reason."""
    reasons = {kind: FAULTS[Kind(kind)].unavailable(control) for kind in kinds}
    return {kind: reason for kind, reason in reasons.items() if reason is not None}


def by_reason(reasons: Mapping[str, str]) -> list[str]:
    """``isolate, mute: why``, one sentence for each reason."""
    kinds: dict[str, list[str]] = {}
    for kind, reason in reasons.items():
        kinds.setdefault(reason, []).append(kind)
    return [f"{', '.join(those)}: {reason}" for reason, those in kinds.items()]
