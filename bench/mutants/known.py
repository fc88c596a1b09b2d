"""What noticed each mutant, line by line on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.mutants.operators import Mutant


@dataclass(frozen=True)
class _Line:
    mutant: str
    module: str
    """Digest of the module's source."""
    suite: str
    """Digest of all checks, tests and histories."""
    noticed: str | None
    """Stage and name of what noticed it."""
    quick: bool
    """The slowest stage was left out."""


class Known:
    """A run that was stopped goes on where it was.

    What was noticed once counts as noticed as long as its module is as it was: tests are only added. What nothing
    noticed is tried again after every change, unless it is ``explained``; and everything is, what noticed it before
    first, when ``again``.
    """

    def __init__(self, path: Path, suite: str, again: bool, explained: frozenset[str]) -> None:
        self._path = path
        self._suite = suite
        self._again = again
        self._explained = explained
        self._lines: dict[str, _Line] = {}
        for text in path.read_text().splitlines() if path.exists() else ():
            line = _Line(**json.loads(text))
            self._lines[line.mutant] = line

    def __getitem__(self, mutant: Mutant) -> str | None:
        return self._lines[mutant.name].noticed

    def hint(self, mutant: Mutant) -> str | None:
        line = self._lines.get(mutant.name)
        return None if line is None else line.noticed

    def missing(self, mutants: Iterable[Mutant], source: str, quick: bool) -> list[Mutant]:
        """Those to try. What was left by a quick run is tried again by a thorough one."""
        return [each for each in mutants if not self._tells(self._lines.get(each.name), digest_of(source), quick)]

    def _tells(self, line: _Line | None, module: str, quick: bool) -> bool:
        if line is None or line.module != module:
            return False
        if line.noticed is not None:
            return not self._again or line.suite == self._suite
        if line.mutant in self._explained and not self._again:
            return True
        return line.suite == self._suite and (quick or not line.quick)

    def learn(self, mutant: Mutant, source: str, noticed: str | None, quick: bool) -> None:
        line = self._lines[mutant.name] = _Line(mutant.name, digest_of(source), self._suite, noticed, quick)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(line)) + "\n")


def digest_of(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:16]
