"""Which brokers hold the replicas of a new partition.

Brokers are taken in the order of their ids. The first replica of partition i is on broker i mod n. The others follow
it round the ring, but the round begins one broker later after each n partitions, so that a dead broker's
leaderships spread over all survivors and do not fall to one neighbour. It is Kafka's rule with both of its random
starting points at 0: the same request gives the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable


def assign_replicas(
    brokers: Iterable[int], partitions: int, replication_factor: int, first_partition: int = 0
) -> dict[int, tuple[int, ...]]:
    """Replicas of ``partitions`` partitions from ``first_partition`` on; the first of each is its preferred leader."""
    ring = sorted(brokers)
    n = len(ring)
    assert 1 <= replication_factor <= n, (replication_factor, n)
    assignment: dict[int, tuple[int, ...]] = {}
    for partition in range(first_partition, first_partition + partitions):
        first, shift = partition % n, partition // n
        others = ((first + 1 + (shift + j - 1) % (n - 1)) % n for j in range(1, replication_factor))
        assignment[partition] = (ring[first], *(ring[index] for index in others))
    return assignment
