"""Beside the cases: what each points at, the parts of transactions and the tallies, as the reference has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tests.checkers.in_process import Row, identity_of
from tests.checkers.reference import ANOMALIES
from tests.checkers.reference_places import Part, Places, parts, places
from tests.checkers.reference_tallies import Tallies, tallies
from tests.checkers.terms import Terms


@dataclass(frozen=True)
class Expected:
    places: Places
    versions: dict[tuple[int, int], set[int | None]]
    """Values known at a key's offset."""
    parts: set[Part]
    tallies: Tallies

    @staticmethod
    def of(all_terms: Iterable[Terms]) -> Expected:
        """Of histories that share no key, process or operation."""
        together = Expected({}, {}, set(), Counter())
        for terms in all_terms:
            together.places.update(places(terms))
            together.versions.update(
                {(key, offset): values for key, log in terms.log.items() for offset, values in log.items()}
            )
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
                if not {row["value"], row["other_value"]} <= self.versions[row["key"], row["offset"]]:
                    lines.append(f"{name}: {row} shows what is not there")
                if row["value"] == row["other_value"]:
                    lines.append(f"{name}: {row} shows one value")
            elif name in ANOMALIES:
                place = self.places.get((name, identity_of(row)), {"no such place": None})
                shown = {each: row.get(each) for each in place}
                if shown != place:
                    lines.append(f"{name}: {identity_of(row)} shows {shown} and not {place}")
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
