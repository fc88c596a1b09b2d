"""Shapes of partitions: who cannot talk to whom. Pure functions from names of hosts to links."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from harness.fleet.base import Link

Cut = frozenset[Link]


@dataclass(frozen=True)
class Hosts:
    brokers: tuple[str, ...]
    coordinators: tuple[str, ...]
    """ZooKeeper's servers."""
    clients: tuple[str, ...]

    def besides(self, node: str) -> tuple[str, ...]:
        """Everybody else."""
        return tuple(each for each in (*self.brokers, *self.coordinators, *self.clients) if each != node)


def one_way(sources: Iterable[str], destinations: Collection[str]) -> Cut:
    """Nothing that the sources send reaches the destinations."""
    return frozenset(Link(a, b) for a in sources for b in destinations if a != b)


def between(one: Collection[str], other: Collection[str]) -> Cut:
    """The two sides hear nothing of each other."""
    return one_way(one, other) | one_way(other, one)


def sides(node: str, brokers: Sequence[str], size: int, rng: random.Random) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Two sides, at random: the one with the node has this many members."""
    others = [each for each in brokers if each != node]
    mine = {node, *rng.sample(others, size - 1)}
    return tuple(each for each in brokers if each in mine), tuple(each for each in brokers if each not in mine)


def ring(brokers: Sequence[str]) -> Cut:
    """Each broker sees a majority, and no two see the same one: its neighbours on a ring, as far as it takes.

    Below four brokers the neighbours are all there are, and nothing is cut.
    """
    count = len(brokers)
    majority = count // 2 + 1
    reach = majority // 2  # to either side; with itself it sees 2 * reach + 1, never less than a majority
    cut = set()
    for i, one in enumerate(brokers):
        for j, other in enumerate(brokers):
            apart = min((i - j) % count, (j - i) % count)
            if apart > reach:
                cut.add(Link(one, other))
    return frozenset(cut)


def told(links: Collection[Link]) -> str:
    """``broker-1 ↔ broker-2, broker-1 → worker-0``"""
    left = set(links)
    words = []
    for link in sorted(links):
        back = Link(link.destination, link.source)
        if link in left:
            words.append(f"{link.source} ↔ {link.destination}" if back in left else str(link))
        left -= {link, back} if back in left else {link}
    return ", ".join(words)
