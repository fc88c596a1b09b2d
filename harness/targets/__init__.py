"""Targets: broker clusters that can be tested, behind one interface (:mod:`harness.targets.base`)."""

from __future__ import annotations

from pathlib import Path

from harness.fleet.base import Fleet
from harness.plan import TargetPlan
from harness.targets.base import Target, TargetError


def make_target(plan: TargetPlan, *, logs: Path, data: Path, fleet: Fleet) -> Target:
    """The target that the plan names, not yet started. Broker data goes under ``data``."""
    # Imported here: neither client library nor ZooKeeper is needed to read a plan or to judge a history.
    if plan.kind == "kafka":
        from harness.targets.kafka import KafkaTarget

        return KafkaTarget(plan, logs=logs, data=data, fleet=fleet)
    if plan.kind == "shipped":
        from harness.targets.shipped import ShippedTarget

        return ShippedTarget(plan, logs=logs, data=data, fleet=fleet)
    if plan.kind == "existing":
        from harness.targets.existing import ExistingTarget

        return ExistingTarget(plan)
    raise TargetError(f"unknown target {plan.kind!r}; there are shipped, kafka, existing")


__all__ = ["Target", "TargetError", "make_target"]
