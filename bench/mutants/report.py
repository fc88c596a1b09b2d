"""How many mutants each module has, what noticed them, and which are explained."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.mutants.operators import Mutant
from bench.mutants.trial import ROOT, STAGES

EXPLAINED = Path(__file__).parent / "equivalent.toml"
PAGE = ROOT / "docs" / "mutants.md"
FIGURES = "<!-- below: python -m bench.mutants --write -->"


@dataclass(frozen=True)
class Reason:
    """Why some mutants change nothing that anybody could notice."""

    reason: str
    mutants: tuple[str, ...]


def explanations() -> list[Reason]:
    groups = tomllib.loads(EXPLAINED.read_text()).get("because", [])
    return [Reason(group["reason"], tuple(group["mutants"])) for group in groups]


@dataclass
class Report:
    table: list[tuple[str, int, Counter[str]]] = field(default_factory=list)
    left: list[Mutant] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Explained, and yet noticed, or no mutant at all."""

    def add(self, module: str, noticed: Mapping[Mutant, str | None]) -> None:
        reasons = [reason for reason in explanations() if reason.mutants]
        explained = {name for reason in reasons for name in reason.mutants if name.startswith(f"{module}.")}
        by: Counter[str] = Counter()
        for mutant, killer in noticed.items():
            by[killer.partition(":")[0] if killer else "explained" if mutant.name in explained else "nothing"] += 1
        self.left += [mutant for mutant, by in noticed.items() if by is None and mutant.name not in explained]
        names = {mutant.name for mutant, killer in noticed.items() if killer is None}
        self.wrong += sorted(explained - names)
        self.table.append((module, len(noticed), by))
        print(f"{module}: {len(noticed)} mutants, {by['explained']} explained, {by['nothing']} left", flush=True)

    @property
    def holds(self) -> bool:
        return not self.left and not self.wrong

    def print(self) -> None:
        print("\n".join(["", *self._rows(), ""]))
        print(f"{len(self.left)} mutants are left unexplained:")
        for mutant in self.left:
            print(f"  {mutant.module.replace('.', '/')}.py:{mutant.line}: {mutant.name}")
        for name in self.wrong:
            print(f"  explained, and yet it was noticed, or is no mutant: {name}")

    def write(self, cases: int) -> None:
        above = PAGE.read_text().partition(FIGURES)[0]
        below = [FIGURES, "", "## Figures", "", f"With {11 * cases:,} random histories.", "", *self._rows()]
        PAGE.write_text(above + "\n".join([*below, "", "## Explained mutants", "", *self._explained(), ""]))

    def _rows(self) -> Iterator[str]:
        yield "| module | mutants | noticed by smallest | else by random | else by unit | else by judge | explained | left |"
        yield "|---|---|---|---|---|---|---|---|"
        columns = (*STAGES, "explained", "nothing")
        total: Counter[str] = Counter()
        for name, count, by in self.table:
            yield f"| {name} | {count} | {' | '.join(str(by[each]) for each in columns)} |"
            total += by
        yield f"| together | {total.total()} | {' | '.join(str(total[each]) for each in columns)} |"

    def _explained(self) -> Iterator[str]:
        for group in explanations():
            yield f"- {group.reason}"
            yield from (f"    - `{name}`" for name in group.mutants)
