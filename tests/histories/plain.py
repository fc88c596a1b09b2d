"""A history judged the slow and plain way, straight from the definitions: what the tests of synthetic
histories hold them against. Rows are dictionaries, checks are loops."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from histories.schema import TABLES

Row = dict[str, Any]
REPEATED = ("process", "worker", "f", "type", "phase", "isolation", "commit_ns")


class Plain:
    """One history in memory."""

    def __init__(self, folder: Path) -> None:
        tables = {name: pq.read_table(folder / name) for name in TABLES}
        for name, table in tables.items():
            assert table.schema.names == TABLES[name].names
        self.ops: list[Row] = tables["ops"].to_pylist()
        self.mops: list[Row] = tables["mops"].to_pylist()
        self.coverage: list[Row] = tables["coverage"].to_pylist()
        self.events: list[Row] = tables["events"].to_pylist()
        self.sends = [row for row in self.mops if row["kind"] == "send"]
        self.polls = [row for row in self.mops if row["kind"] == "poll"]

    def assert_well_formed(self) -> None:
        """What every checker assumes of a history."""
        assert [row["op"] for row in self.ops] == list(range(len(self.ops)))
        times = [row["invoke_ns"] for row in self.ops]
        assert times == sorted(times)
        last: dict[int, Row] = {}
        for row in self.ops:
            before = last.get(row["process"])
            if before is not None:
                assert before["type"] != "info", f"process {row['process']} went on after info"
                assert before["complete_ns"] <= row["invoke_ns"], f"two open operations: {before} {row}"
                assert before["worker"] == row["worker"]
            last[row["process"]] = row
            if row["complete_ns"] is not None:
                assert row["complete_ns"] > row["invoke_ns"]
        places = [(row["op"], row["mop"], row["pos"]) for row in self.mops]
        assert places == sorted(set(places))
        for row in self.mops:
            op = self.ops[row["op"]]
            assert all(row[name] == op[name] for name in REPEATED)
            assert row["invoke_ns"] >= op["invoke_ns"]
            if op["complete_ns"] is not None and row["complete_ns"] is not None:
                assert row["invoke_ns"] < row["complete_ns"] <= op["complete_ns"]
        values = [row["value"] for row in self.sends]
        assert len(set(values)) == len(values)
        moments = [row["time_ns"] for row in self.events]
        assert moments == sorted(moments)

    def assert_readers_were_assigned(self) -> None:
        """A process polls only keys for which it sought a position, and starts where it sought."""
        position: dict[tuple[int, int], int | None] = {}
        for row in self.mops:
            place = (row["process"], row["key"])
            if row["kind"] == "seek":
                position[place] = row["offset"]
            elif row["kind"] == "poll":
                assert place in position, row
                if position[place] is not None:
                    assert row["offset"] >= (position[place] or 0)
                    position[place] = None

    def anomalies(self) -> Counter[str]:
        """How often each anomaly of delivery and order holds."""
        found: Counter[str] = Counter()
        self._values(found)
        self._offsets(found)
        self._transactions(found)
        self._poll_order(found)
        self._send_order(found)
        return found

    # Terms

    def _own(self) -> list[Row]:
        """Polled records that are what they seem to be."""
        sent = {(row["key"], row["value"]) for row in self.sends}
        return [row for row in self.polls if row["defect"] is None and (row["key"], row["value"]) in sent]

    def _committed(self) -> set[int]:
        read = {row["value"] for row in self._own()}
        read_committed = {row["value"] for row in self._own() if row["isolation"] == "read_committed"}
        committed: set[int] = set()
        for op, sends in _grouped(self.sends, "op").items():
            values = {row["value"] for row in sends}
            if self.ops[op]["f"] == "txn":
                ended = self.ops[op]["type"]
                if ended == "ok" or (ended == "info" and values & read_committed):
                    committed |= values
            else:
                committed |= {
                    row["value"]
                    for row in sends
                    if row["status"] == "ok" or (row["status"] == "info" and row["value"] in read)
                }
        return committed

    def _scans(self) -> dict[tuple[int, str], set[int]]:
        """Values of each complete scan."""
        scans: dict[tuple[int, str], set[int]] = {
            (row["key"], row["isolation"]): set() for row in self.coverage if row["complete"]
        }
        for row in self._own():
            if row["phase"] == "final" and (row["key"], row["isolation"]) in scans:
                scans[row["key"], row["isolation"]].add(row["value"])
        return scans

    # Checks

    def _values(self, found: Counter[str]) -> None:
        scans, committed = self._scans(), self._committed()
        offsets: dict[int, set[int]] = defaultdict(set)
        for row in self._own():
            offsets[row["value"]].add(row["offset"])
        for row in self.sends:
            value, key = row["value"], row["key"]
            mine = [scan for (scanned, _), scan in scans.items() if scanned == key]
            found["lost-write"] += value in committed and any(value not in scan for scan in mine)
            found["unseen"] += value in committed and not mine and value not in offsets
            raw = scans.get((key, "read_uncommitted"))
            found["vanished-read"] += value in offsets and raw is not None and value not in raw
            found["duplicate"] += len(offsets.get(value, ())) > 1
            found["misplaced-ack"] += (
                row["offset"] is not None and value in offsets and row["offset"] not in offsets[value]
            )
            found["aborted-read"] += row["f"] != "txn" and row["status"] == "fail" and value in offsets
        sent = {(row["key"], row["value"]) for row in self.sends}
        strange = {
            (row["key"], row["offset"])
            for row in self.polls
            if row["defect"] is not None or (row["key"], row["value"]) not in sent
        }
        found["phantom"] += len(strange)

    def _log(self) -> dict[int, dict[int, set[int]]]:
        committed = self._committed()
        log: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        for row in self._own():
            log[row["key"]][row["offset"]].add(row["value"])
        for row in self.sends:
            if row["offset"] is not None and row["value"] in committed:
                log[row["key"]][row["offset"]].add(row["value"])
        return log

    def _offsets(self, found: Counter[str]) -> None:
        found["inconsistent-offset"] += sum(
            len(values) > 1 for offsets in self._log().values() for values in offsets.values()
        )

    def _transactions(self, found: Counter[str]) -> None:
        scans = self._scans()
        for op, sends in _grouped([row for row in self.sends if row["f"] == "txn"], "op").items():
            values = {row["value"] for row in sends}
            early = {
                (row["op"], row["value"])
                for row in self.polls
                if row["value"] in values
                and row["isolation"] == "read_committed"
                and self.ops[op]["commit_ns"] is not None
                and row["complete_ns"] is not None
                and row["complete_ns"] < self.ops[op]["commit_ns"]
            }
            found["early-read"] += len(early)
            if self.ops[op]["type"] == "ok":
                there = [row["value"] in scans.get((row["key"], "read_committed"), ()) for row in sends]
                found["torn-transaction"] += any(there) and not all(there)

    def _poll_order(self, found: Counter[str]) -> None:
        committed = self._committed()
        rank: dict[tuple[int, str], dict[int, int]] = {}
        for key, offsets in self._log().items():
            for isolation in ("read_committed", "read_uncommitted"):
                kept = sorted(
                    offset
                    for offset, values in offsets.items()
                    if isolation == "read_uncommitted" or values & committed
                )
                rank[key, isolation] = {offset: place for place, offset in enumerate(kept)}
        last: dict[tuple[int, int], tuple[int, int]] = {}
        own = {(row["op"], row["mop"], row["pos"]) for row in self._own()}
        rows = _grouped(self.mops, "op")
        for op in self.ops:
            for row in rows.get(op["op"], ()):
                place = (row["process"], row["key"])
                if row["kind"] == "seek":
                    last.pop(place, None)
                if row["kind"] != "poll" or (row["op"], row["mop"], row["pos"]) not in own:
                    continue
                index = rank[row["key"], row["isolation"]].get(row["offset"])
                if index is None:
                    continue
                if place in last:
                    before_op, before = last[place]
                    prefix = "int-" if before_op == row["op"] else ""
                    found[f"{prefix}poll-skip"] += index - before > 1
                    found[f"{prefix}nonmonotonic-poll"] += index - before < 1
                last[place] = (row["op"], index)
            if op["type"] != "ok":
                last = {place: seen for place, seen in last.items() if place[0] != op["process"]}

    def _send_order(self, found: Counter[str]) -> None:
        acknowledged = [row for row in self.sends if row["status"] == "ok" and row["offset"] is not None]
        last: dict[tuple[int, int], Row] = {}
        for row in acknowledged:
            before = last.get((row["process"], row["key"]))
            if before is not None:
                prefix = "int-" if before["op"] == row["op"] else ""
                found[f"{prefix}nonmonotonic-send"] += before["offset"] > row["offset"]
                if prefix:
                    known = self._known(row["key"])
                    found["int-send-skip"] += any(each in known for each in range(before["offset"] + 1, row["offset"]))
            last[row["process"], row["key"]] = row
        for sends in _grouped(acknowledged, "key").values():
            by_completion = sorted(sends, key=lambda row: int(row["complete_ns"]))
            by_invocation = sorted(sends, key=lambda row: int(row["invoke_ns"]))
            done: list[int] = []
            taken = 0
            for row in by_invocation:
                while by_completion[taken]["complete_ns"] < row["invoke_ns"]:
                    done.append(by_completion[taken]["offset"])
                    taken += 1
                # Only the latest can be out of order in a history with a few planted cases; all are
                # compared, because that is the definition.
                found["realtime-order"] += sum(offset > row["offset"] for offset in done)

    def _known(self, key: int) -> set[int]:
        if not hasattr(self, "_known_offsets"):
            self._known_offsets = {each: set(offsets) for each, offsets in self._log().items()}
        return self._known_offsets.get(key, set())


def _grouped(rows: list[Row], column: str) -> dict[int, list[Row]]:
    groups: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[column]].append(row)
    return groups
