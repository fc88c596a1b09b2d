"""What is wrong with a small history of transactions, in plain Python from the definitions: whole graph, transitive closures.

Written to be compared with, not to be quick. Real-time order is every pair; a component is where two nodes reach each other.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

Mop = tuple[str, int, "int | list[int] | None"]
"""("w", key, value), or ("r", key, what was read): a list, a value or None."""
Pairs = set[tuple[int, int]]


@dataclass(frozen=True)
class Txn:
    op: int
    process: int
    type: str
    invoke: int
    complete: int | None
    mops: tuple[Mop, ...]


def anomalies(txns: list[Txn], lists: bool) -> Counter[str]:
    found: Counter[str] = Counter()
    edges = _list_edges(txns, found) if lists else _register_edges(txns, found)
    seen = {writer for (writer, _), kind in edges if kind == "seen"}
    nodes = [txn for txn in txns if txn.type == "ok" or (txn.type == "info" and txn.op in seen)]
    there = {txn.op for txn in nodes}
    kinds = {
        name: {pair for pair, kind in edges if kind == name and set(pair) <= there and pair[0] != pair[1]}
        for name in ("ww", "wr", "rw")
    }
    before = {
        (a.op, b.op)
        for a in nodes
        for b in nodes
        if a.type == "ok" and a.complete is not None and a.complete < b.invoke
    }
    process_of = {txn.op: txn.process for txn in nodes}
    process = {(a, b) for a, b in before if process_of[a] == process_of[b]}
    _cycles(sorted(there), kinds, process, before, found)
    return found


def closure(nodes: list[int], pairs: Pairs) -> Pairs:
    reach = {node: {b for a, b in pairs if a == node} for node in nodes}
    for middle in nodes:
        for node in nodes:
            if middle in reach[node]:
                reach[node] |= reach[middle]
    return {(a, b) for a in nodes for b in reach[a]}


def _cycles(nodes: list[int], kinds: dict[str, Pairs], process: Pairs, real_time: Pairs, found: Counter[str]) -> None:
    every = closure(nodes, kinds["ww"] | kinds["wr"] | kinds["rw"] | real_time)
    components = {frozenset(b for b in nodes if (a, b) in every and (b, a) in every) for a in nodes if (a, a) in every}
    for component in components:
        members = sorted(component)
        ww, wr, rw, same, later = (
            {(a, b) for a, b in pairs if a in component and b in component}
            for pairs in (kinds["ww"], kinds["wr"], kinds["rw"], process, real_time)
        )
        names: set[str] = set()
        wider = [("", set()), ("-process", same), ("-realtime", same | later)]
        for number, (suffix, order) in enumerate(wider):
            here = [each for each, _ in wider[: number + 1]]

            def has(*bases: str, here: list[str] = here, names: set[str] = names) -> bool:
                return any(base + each in names for base in bases for each in here)

            writes = closure(members, ww | order)
            data = closure(members, ww | wr | order)
            whole = closure(members, ww | wr | rw | order)
            if not has("G0") and any((b, a) in writes for a, b in ww):
                names.add("G0" + suffix)
            if not has("G1c", "G0") and any((b, a) in data for a, b in wr):
                names.add("G1c" + suffix)
            if not has("G-single-item") and any((b, a) in data for a, b in rw):
                names.add("G-single-item" + suffix)
            hops = closure(members, {(a, d) for a, b in data for c, d in rw if b == c})
            if not has("G-single-item", "G-nonadjacent-item") and any((a, a) in hops for a in members):
                names.add("G-nonadjacent-item" + suffix)
            if not has("G-single-item", "G-nonadjacent-item", "G2-item") and any((b, a) in whole for a, b in rw):
                names.add("G2-item" + suffix)
        found.update(names)


def _by_key(txn: Txn) -> dict[int, list[Mop]]:
    keys: dict[int, list[Mop]] = {}
    for mop in txn.mops:
        keys.setdefault(mop[1], []).append(mop)
    return keys


Edges = set[tuple[tuple[int, int], str]]


def _list_edges(txns: list[Txn], found: Counter[str]) -> Edges:
    edges: Edges = set()
    ok = [txn for txn in txns if txn.type == "ok"]
    for key in sorted({mop[1] for txn in txns for mop in txn.mops}):
        writer: dict[object, Txn] = {mop[2]: txn for txn in txns for mop in txn.mops if mop[0] == "w" and mop[1] == key}
        appended = [[mop[2] for mop in _by_key(txn).get(key, []) if mop[0] == "w"] for txn in txns]
        middle = {value for mine in appended for value in mine[:-1]}
        reads: list[tuple[Txn, list[int]]] = [
            (txn, list(mop[2] or []))  # type: ignore[arg-type]
            for txn in ok
            for mop in txn.mops
            if mop[0] == "r" and mop[1] == key
        ]
        longest = max((read for _, read in reads), key=len, default=[])
        versions = list(dict.fromkeys(longest))
        found["incompatible-order"] += any(longest[: len(read)] != read for _, read in reads)
        strangers: set[int] = set()
        for txn, read in reads:
            found["duplicate-elements"] += len(set(read)) < len(read)
            for value in read:
                if value not in writer:
                    strangers.add(value)
                    continue
                edges.add(((writer[value].op, txn.op), "seen"))
                found["G1a"] += writer[value].type == "fail"
            if read and read[-1] in writer:
                last = writer[read[-1]]
                found["G1b"] += read[-1] in middle and last is not txn
                if last.type != "fail":
                    edges.add(((last.op, txn.op), "wr"))
        found["phantom"] += len(strangers)
        lost: dict[tuple[int, ...], int] = {}
        for txn in ok:
            mine = _by_key(txn).get(key, [])
            found["internal"] += _list_contradicts(mine)
            for place, mop in enumerate(mine):
                written = [each[2] for each in mine[place + 1 :] if each[0] == "w"]
                if mop[0] == "r":
                    found["future-read"] += sum(value in written for value in mop[2] or [])  # type: ignore[union-attr]
            if mine and mine[0][0] == "r" and any(mop[0] == "w" for mop in mine):
                content = tuple(mine[0][2] or [])  # type: ignore[arg-type]
                lost[content] = lost.get(content, 0) + 1
        found["lost-update"] += sum(count > 1 for count in lost.values())
        fates = [writer[value].type for value in versions if value in writer and writer[value].type != "info"]
        found["dirty-update"] += sum(pair == ("fail", "ok") for pair in pairwise(fates))
        for written_value, txn in writer.items():
            if txn.type == "fail":
                continue
            assert isinstance(written_value, int)
            place = versions.index(written_value) if written_value in versions else len(versions)
            previous = versions[place - 1] if place else None
            if previous in writer and writer[previous].type != "fail":
                edges.add(((writer[previous].op, txn.op), "ww"))
            for reader, read in reads:
                if (read[-1] if read else None) == previous:
                    edges.add(((reader.op, txn.op), "rw"))
    return edges


def _list_contradicts(mine: list[Mop]) -> bool:
    known: list[int] | None = None
    tail: list[int] = []
    for kind, _, said in mine:
        if kind == "w":
            tail.append(said)  # type: ignore[arg-type]
            continue
        read = list(said or [])  # type: ignore[arg-type]
        if known is not None and read != known + tail:
            return True
        if known is None and tail and read[-len(tail) :] != tail:
            return True
        known, tail = read, []
    return False


def _register_edges(txns: list[Txn], found: Counter[str]) -> Edges:
    edges: Edges = set()
    ok = [txn for txn in txns if txn.type == "ok"]
    for key in sorted({mop[1] for txn in txns for mop in txn.mops}):
        writer: dict[object, Txn] = {mop[2]: txn for txn in txns for mop in txn.mops if mop[0] == "w" and mop[1] == key}
        final = {txn.op: [m[2] for m in _by_key(txn).get(key, []) if m[0] == "w"][-1:] for txn in txns}
        external: dict[object, Txn] = {v: txn for txn in txns if txn.type != "fail" for v in final[txn.op]}
        strangers: set[object] = set()
        lost: Counter[object] = Counter()
        follows: set[tuple[object, object]] = set()
        first_reads: list[tuple[Txn, object]] = []
        for txn in ok:
            mine = _by_key(txn).get(key, [])
            found["internal"] += any(b[0] == "r" and a[2] is not None and a[2] != b[2] for a, b in pairwise(mine))
            for place, (kind, _, value) in enumerate(mine):
                found["future-read"] += kind == "r" and ("w", key, value) in mine[place + 1 :]
                if kind != "r" or value is None:
                    continue
                if value not in writer:
                    strangers.add(value)
                    continue
                wrote = writer[value]
                edges.add(((wrote.op, txn.op), "seen"))
                found["G1a"] += wrote.type == "fail"
                found["G1b"] += wrote is not txn and final[wrote.op] != [value]
            if mine and mine[0][0] == "r":
                value = mine[0][2]
                first_reads.append((txn, value))
                if value in external:
                    edges.add(((external[value].op, txn.op), "wr"))
                if final[txn.op]:
                    lost[value] += 1
                    if value is not None and value != final[txn.op][0]:
                        follows.add((value, final[txn.op][0]))
        found["phantom"] += len(strangers)
        found["lost-update"] += sum(count > 1 for count in lost.values())
        names = sorted({each for pair in follows for each in pair}, key=str)
        numbers = {name: place for place, name in enumerate(names)}
        order = closure(list(numbers.values()), {(numbers[a], numbers[b]) for a, b in follows})
        if any(a == b for a, b in order):
            found["cyclic-versions"] += 1
            follows = set()
        for earlier, later in follows | {(None, each) for each in external}:
            if later not in external:
                continue
            if earlier in external:
                edges.add(((external[earlier].op, external[later].op), "ww"))
            for txn, read in first_reads:
                if read == earlier:
                    edges.add(((txn.op, external[later].op), "rw"))
    return edges
