"""The few operations of Spark that the checkers use, in this process: a list of lists is a distributed one.

For tools that run the checks very often; the tests themselves use Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from pyspark import SparkContext


class LocalContext:
    defaultParallelism = 2  # noqa: N815 - Spark's own name

    def parallelize(self, items: Sequence[Any], parts: int) -> LocalList:
        return LocalList([list(items[number::parts]) for number in range(parts)])

    def stop(self) -> None:
        """Nothing was started."""


class LocalList:
    def __init__(self, parts: list[list[Any]]) -> None:
        self._parts = parts

    def map(self, each: Callable[[Any], Any]) -> LocalList:
        return LocalList([[each(item) for item in part] for part in self._parts])

    def flatMap(self, each: Callable[[Any], Iterable[Any]]) -> LocalList:  # noqa: N802
        return LocalList([[found for item in part for found in each(item)] for part in self._parts])

    def mapPartitions(self, whole: Callable[[Iterable[Any]], Iterable[Any]]) -> LocalList:  # noqa: N802
        return LocalList([list(whole(iter(part))) for part in self._parts])

    def partitionBy(self, parts: int, where: Callable[[Any], int]) -> LocalList:  # noqa: N802
        moved: list[list[Any]] = [[] for _ in range(parts)]
        for part in self._parts:
            for key, item in part:
                moved[where(key) % parts].append((key, item))
        return LocalList(moved)

    def values(self) -> LocalList:
        return self.map(lambda pair: pair[1])

    def collect(self) -> list[Any]:
        return [item for part in self._parts for item in part]


def local_context() -> SparkContext:
    return cast(SparkContext, LocalContext())
