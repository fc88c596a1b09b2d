"""What the nemesis may ask about a cluster, over a management link that faults never touch."""

from __future__ import annotations

from typing import Protocol


class ClusterView(Protocol):
    """Implemented by each target in ``harness.targets``. None means: nobody knows right now."""

    def controller(self) -> int | None:
        """Broker id of the controller."""

    def controller_epoch(self) -> int | None:
        """Epoch of the controller."""

    def leader(self, topic: str, partition: int) -> int | None:
        """Broker id of the leader."""

    def in_sync_replicas(self, topic: str, partition: int) -> tuple[int, ...] | None:
        """Broker ids of the ISR."""

    def unhealthy(self) -> list[str]:
        """What is still wrong by the cluster's own account, one sentence each; empty: healthy (every
        broker registered, a controller, every partition with a leader and a full ISR)."""
