"""A cluster that somebody else runs: any bootstrap string. It is driven and judged, never broken."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka

from harness.fleet.base import Links
from harness.plan import TargetPlan, TopicPlan
from harness.targets.admin import Admin, AdminView
from harness.targets.base import TargetError, node_name


class ExistingTarget:
    """See :class:`harness.targets.base.Target`."""

    name = "existing"
    supports_faults = False
    links: Links | None = None

    def __init__(self, plan: TargetPlan) -> None:
        if not plan.bootstrap:
            raise TargetError("an existing cluster needs its address: --bootstrap HOST:PORT[,HOST:PORT]")
        self.bootstrap = plan.bootstrap
        self._admin = Admin(plan.bootstrap)
        self._view: AdminView | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(node_name(each) for each in self.view.brokers)

    @property
    def view(self) -> AdminView:
        if self._view is None:
            raise TargetError("the target is not started")
        return self._view

    def start(self) -> None:
        self._view = AdminView(self._admin)

    def stop(self) -> None:
        """It is not ours to stop."""

    def create_topic(self, name: str, plan: TopicPlan, timeout_s: float = 60.0) -> None:
        self._admin.create_topic(name, plan, timeout_s)

    def delete_topic(self, name: str, timeout_s: float = 60.0) -> None:
        self._admin.delete_topic(name, timeout_s)

    def versions(self) -> dict[str, str]:
        return {
            "target": f"existing cluster at {self.bootstrap}",
            "librdkafka": confluent_kafka.libversion()[0],
        }

    def _refuse(self) -> TargetError:
        return TargetError("faults need a managed target; an existing cluster is never broken")

    def start_node(self, node: str, timeout_s: float = 60.0) -> None:  # noqa: ARG002
        raise self._refuse()

    def kill_node(self, node: str) -> None:  # noqa: ARG002
        raise self._refuse()

    def stop_node(self, node: str, timeout_s: float = 30.0) -> None:  # noqa: ARG002
        raise self._refuse()

    def pause_node(self, node: str) -> None:  # noqa: ARG002
        raise self._refuse()

    def resume_node(self, node: str) -> None:  # noqa: ARG002
        raise self._refuse()

    def pid(self, node: str) -> int | None:  # noqa: ARG002
        return None

    def state(self, node: str) -> str | None:  # noqa: ARG002
        return None

    def log_dirs(self) -> dict[int, Path]:
        return {}

    def registered(self, node: str) -> bool | None:
        return node in self.nodes
