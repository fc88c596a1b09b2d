"""Reads plans (TOML) into :class:`harness.plan.Plan`, and writes the resolved plan back.

A plan is found by its name among those that we ship (``harness/plans/``) or by its path. Every value is
checked when it is read, and all that is wrong is said at once: where (file and line, or the override),
which field by its dotted path, what was expected, and the nearest known name for a mistyped one.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from importlib import resources
from pathlib import Path
from types import GenericAlias
from typing import Any, get_args, get_origin, get_type_hints

from checkers.names import OF_LOGS
from harness.plan import Plan
from harness.planrules import BOUNDS, CHOICES, broken_rules, is_member, members, nearest


class PlanError(Exception):
    """A plan that cannot be run; the message has one line per problem. Exit code 64."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Override:
    """One value that replaces the plan's own."""

    path: str
    value: Any
    label: str
    """What the person typed, for messages."""


def parse_override(text: str) -> Override:
    """``clients.acks=1``: the value is TOML; what is not TOML is taken as plain text."""
    path, equals, value = text.partition("=")
    label = f"--set {text}"
    if not equals or not path.strip():
        raise PlanError([f"{label}: expected FIELD=VALUE, such as --set clients.acks=1"])
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        parsed = {}
    # A value with a line break in it could smuggle in further keys; then it is text.
    plain = value.strip() if set(parsed) != {"value"} else parsed["value"]
    return Override(path.strip(), plain, label)


def plan_names() -> tuple[str, ...]:
    """The plans that we ship, by name."""
    folder = resources.files("harness") / "plans"
    return tuple(sorted(each.name[:-5] for each in folder.iterdir() if each.name.endswith(".toml")))


def load(
    name_or_path: str | Path,
    overrides: Sequence[Override] = (),
    *,
    anomalies: tuple[str, ...] = OF_LOGS,
) -> Plan:
    """Read a plan by the name of a shipped one or by its path, with overrides applied."""
    given = str(name_or_path)
    if given in plan_names():
        text = (resources.files("harness") / "plans" / f"{given}.toml").read_text()
        return loads(text, f"plan {given}", overrides, name=given, anomalies=anomalies)
    path = Path(name_or_path)
    if not path.is_file():
        hint = nearest(given, plan_names())
        raise PlanError([f"{given}: neither a file nor a plan that is shipped ({', '.join(plan_names())}){hint}"])
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PlanError([f"{given}: not UTF-8 text: {error}"]) from None
    except OSError as error:
        raise PlanError([f"{given}: cannot be read: {error.strerror}"]) from None
    return loads(text, given, overrides, name=path.stem, anomalies=anomalies)


def loads(
    text: str,
    source: str,
    overrides: Sequence[Override] = (),
    *,
    name: str = "default",
    anomalies: tuple[str, ...] = OF_LOGS,
) -> Plan:
    """Read a plan from TOML text; ``source`` names it in messages, ``name`` is its name if it has none."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError([f"{source}: not TOML: {error}"]) from None
    document.setdefault("name", name)
    where = _Locations(source, text, overrides)
    reader = _Reader(where, anomalies)
    for each in overrides:
        reader.override(document, each)
    plan = reader.plan(document)
    problems = reader.problems
    if not problems:
        problems = [where.say(path, reason) for path, reason in broken_rules(plan)]
    if problems:
        raise PlanError(problems)
    return plan


class _Locations:
    """Finds where a field was given: an override, a line of the file, or only the file."""

    def __init__(self, source: str, text: str, overrides: Sequence[Override]) -> None:
        self._source = source
        self._lines = dict(_lines_of_fields(text))
        self._overrides = {each.path: each.label for each in overrides}

    def say(self, path: str, reason: str) -> str:
        return f"{self._place(path)}: {path}: {reason}"

    def unknown(self, path: str, hint: str) -> str:
        return f"{self._place(path)}: unknown field {path!r}{hint}"

    def _place(self, path: str) -> str:
        if path in self._overrides:
            return self._overrides[path]
        line = self._lines.get(path)
        return f"{self._source}:{line}" if line else self._source


_HEADER = re.compile(r"\s*\[\s*([\w.\-]+)\s*\]")
_FIELD = re.compile(r"\s*([\w.\-]+)\s*=")


def _lines_of_fields(text: str) -> Iterator[tuple[str, int]]:
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = header[1] + "."
            yield header[1], number
        elif given := _FIELD.match(line):
            yield table + given[1], number


class _Reader:
    """Turns a TOML document into dataclasses and collects everything that is wrong with it."""

    def __init__(self, where: _Locations, anomalies: tuple[str, ...]) -> None:
        self.problems: list[str] = []
        self._where = where
        self._anomalies = anomalies

    def override(self, document: dict[str, Any], override: Override) -> None:
        table = document
        *parents, last = override.path.split(".")
        if parents[:2] == ["target", "settings"]:  # Kafka's own names have dots in them
            parents, last = ["target", "settings"], override.path.removeprefix("target.settings.")
        for each in parents:
            below = table.setdefault(each, {})
            if not isinstance(below, dict):
                self.problems.append(self._where.unknown(override.path, ""))
                return
            table = below
        table[last] = override.value

    def plan(self, document: Mapping[str, Any]) -> Plan:
        plan = self._table(Plan, document, "")
        assert isinstance(plan, Plan)
        return plan

    def _table(self, kind: type, given: Mapping[str, Any], prefix: str) -> Any:
        types = get_type_hints(kind)
        known = tuple(each.name for each in fields(kind))
        values = {}
        for name, value in given.items():
            path = prefix + name
            if name not in known:
                self.problems.append(self._where.unknown(path, self._guess(path, prefix, known)))
                continue
            count = len(self.problems)
            read = self._value(path, types[name], value)
            if len(self.problems) == count:
                values[name] = read
        return kind(**values)

    @staticmethod
    def _guess(path: str, prefix: str, known: tuple[str, ...]) -> str:
        everywhere = tuple(all_paths())
        hint = nearest(path, tuple(prefix + each for each in known)) or nearest(path, everywhere)
        if hint:
            return hint
        last = path.rpartition(".")[2]
        elsewhere = [each for each in everywhere if each.rpartition(".")[2] == last]
        return f"; did you mean {elsewhere[0]!r}?" if elsewhere else ""

    def _value(self, path: str, kind: Any, value: Any) -> Any:
        if is_dataclass(kind) and isinstance(kind, type):
            if isinstance(value, dict):
                return self._table(kind, value, path + ".")
            return self._wrong(path, "a table of fields", value)
        if get_origin(kind) is tuple:
            return self._list(path, value)
        if get_origin(kind) is dict:
            return self._settings(path, value)
        if kind is bool:
            return value if isinstance(value, bool) else self._wrong(path, "true or false", value)
        if kind is str:
            return self._text(path, value)
        return self._number(path, kind, value)

    def _text(self, path: str, value: Any) -> Any:
        choices = CHOICES.get(path)
        if choices is None:
            return value if isinstance(value, str) else self._wrong(path, "text", value)
        # acks = 1 is what everyone types, and it can mean only one thing.
        given = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if given in choices:
            return given
        hint = nearest(given, choices) if isinstance(given, str) else ""
        return self._wrong(path, f"one of {', '.join(choices)}", value, hint)

    def _number(self, path: str, kind: type, value: Any) -> Any:
        named = "a whole number" if kind is int else "a number"
        low, high = BOUNDS[path]
        wanted = f"{named} of at least {low}" if high is None else f"{named} from {low} to {high}"
        allowed = (int,) if kind is int else (int, float)
        if isinstance(value, bool) or not isinstance(value, allowed) or not math.isfinite(value):
            return self._wrong(path, wanted, value)
        if value < low or (high is not None and value > high):
            return self._wrong(path, wanted, value)
        return kind(value)

    def _list(self, path: str, value: Any) -> Any:
        if isinstance(value, str):  # --set faults.kinds=kill,pause
            value = [each.strip() for each in value.split(",") if each.strip()]
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            return self._wrong(path, "a list of names", value)
        known = members(path, self._anomalies)
        for each in value:
            if not is_member(path, each, self._anomalies):
                self._wrong(path, f"names out of {', '.join(known)}", each, nearest(each, known))
        doubled = sorted({each for each in value if value.count(each) > 1})
        if doubled:
            self.problems.append(self._where.say(path, f"{doubled[0]!r} is given twice"))
        return tuple(value)

    def _settings(self, path: str, value: Any) -> Any:
        if not isinstance(value, dict):
            return self._wrong(path, "a table of Kafka settings", value)
        settings: dict[str, str] = {}
        for name, each in _flattened(value):
            if isinstance(each, bool):
                settings[name] = "true" if each else "false"
            elif isinstance(each, (str, int, float)):
                settings[name] = str(each)
            else:
                self._wrong(f"{path}.{name}", "text, a number, true or false", each)
        return settings

    def _wrong(self, path: str, wanted: str, value: Any, hint: str = "") -> None:
        self.problems.append(self._where.say(path, f"expected {wanted}, not {_shown(value)}{hint}"))


def _flattened(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """``log.retention.ms = 1`` without quotes is three nested tables in TOML; Kafka means one name."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    return repr(value)


def all_paths(kind: type = Plan, prefix: str = "") -> Iterator[str]:
    """The dotted path of every field of a plan."""
    types = get_type_hints(kind)
    for each in fields(kind):
        below = types[each.name]
        if is_dataclass(below) and isinstance(below, type):
            yield from all_paths(below, f"{prefix}{each.name}.")
        else:
            yield prefix + each.name


def type_name(kind: Any) -> str:
    """How the reference calls a field's type."""
    if isinstance(kind, GenericAlias) or get_args(kind):
        return "list of names" if get_origin(kind) is tuple else "table"
    return {bool: "true or false", int: "whole number", float: "number", str: "text"}[kind]


def dump(plan: Plan) -> str:
    """The resolved plan as TOML; reading it gives the same plan."""
    return "\n".join(_dumped(plan, "")) + "\n"


def _dumped(table: Any, header: str) -> Iterator[str]:
    below = []
    for each in fields(table):
        value = getattr(table, each.name)
        if is_dataclass(value) or isinstance(value, dict):
            below.append((f"{header}{each.name}", value))
        else:
            yield f"{each.name} = {_toml(value)}"
    for name, value in below:
        if isinstance(value, dict):
            if value:
                yield f"\n[{name}]"
                yield from (f"{_toml(key)} = {_toml(value[key])}" for key in sorted(value))
            continue
        yield f"\n[{name}]"
        yield from _dumped(value, f"{name}.")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)
