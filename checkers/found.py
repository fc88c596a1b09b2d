"""Cases found in a partition: columns of one shape for every anomaly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.load import NONE
from checkers.rows import Bools, Ints

PLACE = ("key", "value", "offset", "process", "op", "step", "other_op", "other_offset", "other_value")

SCHEMA = pa.schema(
    [
        pa.field("anomaly", pa.string()),
        pa.field("n", pa.int64()),
        pa.field("fatal_n", pa.int64()),
        pa.field("fatal", pa.bool_()),
        *(pa.field(name, pa.int64()) for name in PLACE),
    ]
)
SPARK_SCHEMA = "anomaly string, n long, fatal_n long, fatal boolean, " + ", ".join(f"{name} long" for name in PLACE)


@dataclass(frozen=True)
class Found:
    """All cases of one anomaly in one partition. Columns that a case does not have are absent."""

    anomaly: str
    fatal: Bools
    columns: dict[str, Ints]

    def rows(self, most: int | None) -> list[dict[str, Any]]:
        """One row per case; or at most ``most`` of them, worst and earliest first, which stand for all."""
        count = len(self.fatal)
        if not count:
            return []
        chosen = np.arange(count)
        if most is not None:
            first = self.columns.get("op", chosen)
            chosen = np.lexsort((first, ~self.fatal))[:most]
        rows = []
        for index in chosen.tolist():
            row: dict[str, Any] = {"anomaly": self.anomaly, "fatal": bool(self.fatal[index]), "n": 1}
            row["fatal_n"] = int(row["fatal"])
            for name, column in self.columns.items():
                row[name] = None if column[index] == NONE else int(column[index])
            rows.append(row)
        if most is not None:
            rows[0]["n"] = count - len(rows) + 1
            rows[0]["fatal_n"] = int(self.fatal.sum()) - sum(row["fatal_n"] for row in rows[1:])
        return rows


def tally(name: str, count: int) -> dict[str, Any]:
    """A number that is not an anomaly; its name starts with ``#``."""
    return {"anomaly": f"#{name}", "n": int(count), "fatal_n": 0, "fatal": False}
