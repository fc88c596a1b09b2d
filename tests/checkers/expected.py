"""Beside the cases: what each points at, the parts of transactions and the tallies, as the reference has them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tests.checkers.in_process import Row, identity_of
from tests.checkers.reference import ANOMALIES
from tests.checkers.reference_places import Holder, Part, Places, holders, parts, places
from tests.checkers.reference_tallies import Tallies, tallies
from tests.checkers.terms import Terms


@dataclass(frozen=True)
class Expected:
    places: Places
    holders: dict[tuple[int, int], set[Holder]]
    """What is known at a key's offset."""
    parts: set[Part]
    tallies: Tallies

    @staticmethod
    def of(all_terms: Iterable[Terms]) -> Expected:
        """Of histories that share no key, process or operation."""
        together = Expected({}, defaultdict(set), set(), Counter())
        for terms in all_terms:
            together.places.update(places(terms))
            for place, holder in holders(terms):
                together.holders[place].add(holder)
            together.parts.update(parts(terms))
            together.tallies.update(tallies(terms))
        return together

    def differences(self, rows: Iterable[Row]) -> list[str]:
        lines: list[str] = []
        found_parts: set[Part] = set()
        found_tallies: Tallies = Counter()
        for row in rows:
            name = row["anomaly"]
            if name == "inconsistent-offset":
                there = self.holders[row["key"], row["offset"]]
                others = {(holder.value, holder.op) for holder in there}
                shown = Holder(*(row[each] for each in ("value", "process", "op", "step")))
                if shown not in there or (row["other_value"], row["other_op"]) not in others:
                    lines.append(f"{name}: {row} shows what is not there")
                if row["other_offset"] != row["offset"]:
                    lines.append(f"{name}: {row} shows two offsets")
                if row["value"] == row["other_value"]:
                    lines.append(f"{name}: {row} shows one value")
            elif name in ANOMALIES:
                place = self.places.get((name, identity_of(row)), {"no such place": None})
                pointed_at = {each: row.get(each) for each in place}
                if pointed_at != place:
                    lines.append(f"{name}: {identity_of(row)} shows {pointed_at} and not {place}")
            elif name.startswith("#txn-"):
                columns = ("op", "process", "key", "value", "offset", "fatal")
                found_parts.add((name, *(row[each] for each in columns)))
            elif name.startswith("#"):
                found_tallies[name, row["key"], row["value"]] += row["n"]
        if found_parts != self.parts:
            lines.append(f"parts of transactions: {sorted(found_parts ^ self.parts, key=str)[:5]}")
        if found_tallies != self.tallies:
            both = found_tallies.keys() | self.tallies.keys()
            odd = {each: (found_tallies[each], self.tallies[each]) for each in both}
            lines.append(f"tallies: {[item for item in odd.items() if item[1][0] != item[1][1]][:5]}")
        return lines
