"""The per-key checks in this process: every smallest history alone in its partition, and other promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkers.exhibits import VARIANTS, Exhibit, smallest_exhibits, variant_exhibit
from tests.checkers.in_process import check, collect
from tests.checkers.local import local_context


def test_each_smallest_history_alone(tmp_path: Path) -> None:
    for exhibit in smallest_exhibits(tmp_path):
        _compare(exhibit)


@pytest.mark.parametrize("name", VARIANTS)
def test_under_other_promises(tmp_path: Path, name: str) -> None:
    _compare(variant_exhibit(tmp_path, name))


def _compare(exhibit: Exhibit) -> None:
    found = check(collect(local_context(), exhibit.folder, exhibit.meta, exhibit.override))
    lines = list(exhibit.differences(found))
    assert not lines, f"{exhibit.name}: {len(lines)} differences, the first:\n" + "\n".join(lines[:5])
