"""The one Spark session that all tests of the checkers share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from checkers.session import start

if TYPE_CHECKING:
    from pyspark import SparkContext


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkContext]:
    session = start("local[2]")
    yield session
    session.stop()
