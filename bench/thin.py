"""Thin a recording to a fixture: ``python -m bench.thin HISTORY OUT --key K --from S --to S``.

Keeps the values that were sent to one key in a stretch of time, with everything that was ever done to them: their
sends, every poll that returned them, seeks, the final scans. A value goes with all of its rows or stays with all of
them, so what is left is a history in its own right, and whatever is wrong with a value that stays is still wrong.
What is left is too little to mean anything by its silence: without an anomaly its verdict is *not exercised*.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from histories.meta import Exercise, Meta
from histories.read import open_history
from histories.writer import HistoryWriter


def thin(source: Path, out: Path, key: int, from_s: float, to_s: float) -> Meta:
    meta, tables = open_history(source)
    mops = pq.read_table(tables["mops"], filters=[("key", "=", key)])
    sends = mops.filter(pc.equal(mops["kind"], "send"))
    inside = pc.and_(
        pc.greater_equal(sends["invoke_ns"], int(from_s * 1e9)), pc.less(sends["invoke_ns"], int(to_s * 1e9))
    )
    # A send of the final phase is the sentinel, to which the scans ran.
    kept = sends.filter(pc.or_(inside, pc.equal(sends["phase"], "final")))["value"].combine_chunks()
    mops = mops.filter(pc.or_(pc.is_null(mops["value"]), pc.is_in(mops["value"], kept)))
    numbers = pc.unique(mops["op"]).sort()
    ops = pq.read_table(tables["ops"], filters=pc.field("op").isin(numbers)).sort_by("op")
    ops = _renumbered(ops, numbers)
    mops = _renumbered(mops, numbers).sort_by([("op", "ascending"), ("mop", "ascending"), ("pos", "ascending")])
    with HistoryWriter(out) as writer:
        writer.write("ops", ops)
        writer.write("mops", mops)
        writer.write("coverage", pq.read_table(tables["coverage"], filters=[("key", "=", key)]))
        writer.write("events", pq.read_table(tables["events"]))
        return writer.close(replace(meta, exercise=Exercise(), expect=(), counts={}))


def _renumbered(table: pa.Table, numbers: pa.Array) -> pa.Table:
    """Operations are numbered densely."""
    place = table.column_names.index("op")
    dense = pc.index_in(table["op"], numbers).cast(pa.int64())
    return table.set_column(place, table.schema.field("op"), dense)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.thin", description=__doc__.splitlines()[0])
    parser.add_argument("history", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--key", type=int, required=True)
    parser.add_argument("--from", type=float, required=True, dest="from_s", metavar="S", help="seconds into the run")
    parser.add_argument("--to", type=float, required=True, dest="to_s", metavar="S")
    options = parser.parse_args(arguments)
    meta = thin(options.history, options.out, options.key, options.from_s, options.to_s)
    print(f"{options.out}: {meta.counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
