"""A little simulated cluster: a few logs, a few clients whose steps interleave, and bugs on demand.

Without bugs its histories have no anomaly beside *unseen* and *int-send-skip*: a check that convicts one is
wrong. With bugs they are near-valid, which is where errors of checkers hide. Everything is drawn from one
``Random``, so that a seed reproduces a history and Hypothesis can shrink one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from histories.meta import KeyInfo, Meta, ProducerSettings, TopicSettings

CLEAN, UNCLEAN, DELETED, COMPACTED = range(4)
KEYS_PER_CASE: Final = 8
_KEY_TOPICS: Final = ("clean", "unclean", "clean", "compacted") * 2

BUGS: Final = (
    "repeat",
    "lose",
    "truncate",
    "misplace",
    "leak",
    "apply-failed",
    "reorder",
    "skip",
    "go-back",
    "tear",
    "hide-boundary",
    "invent",
)
_FIRST_INVENTED_VALUE: Final = 900
_FIRST_FINAL_PROCESS: Final = 10
_ACKS_0: Final = 4

Row = dict[str, Any]


def meta(cases: int = 1) -> Meta:
    """The settings of all simulated histories; the keys of case n start at n * KEYS_PER_CASE."""
    keys = tuple(
        KeyInfo(_KEY_TOPICS[each % KEYS_PER_CASE], each, deleted=each % KEYS_PER_CASE == DELETED)
        for each in range(cases * KEYS_PER_CASE)
    )
    return Meta(
        run_id="simulated",
        origin="synthetic",
        keys=keys,
        topics={
            "clean": TopicSettings(len(keys), 3, 2),
            "unclean": TopicSettings(len(keys), 3, 2, unclean_leader_election=True),
            "compacted": TopicSettings(len(keys), 3, 2, cleanup_policy="compact"),
        },
        producers=(
            ProducerSettings(acks=-1, idempotent=True, retries=9, max_in_flight=5),
            ProducerSettings(acks=-1, idempotent=False, retries=0, max_in_flight=5),
            ProducerSettings(acks=-1, idempotent=False, retries=9, max_in_flight=1),
            ProducerSettings(acks=1, idempotent=False, retries=9, max_in_flight=5),
            ProducerSettings(acks=0, idempotent=False, retries=0, max_in_flight=5),
            ProducerSettings(acks=1, idempotent=False, retries=0, max_in_flight=1),
        ),
        clock_error_ns={"0": 0, "1": 3, "2": 7},
    )


@dataclass(eq=False)
class Txn:
    state: str = "open"
    keys: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Entry:
    offset: int
    value: int
    txn: Txn | None


@dataclass
class Log:
    entries: list[Entry] = field(default_factory=list)
    end: int = 0
    gaps: list[int] = field(default_factory=list)

    def append(self, value: int, txn: Txn | None) -> int:
        self.entries.append(Entry(self.end, value, txn))
        self.end += 1
        return self.end - 1

    def gap(self) -> None:
        """A control record, or something removed: an offset without a record."""
        self.gaps.append(self.end)
        self.end += 1

    def insert(self, value: int, txn: Txn | None) -> int:
        offset = self.gaps.pop()
        self.entries.append(Entry(offset, value, txn))
        self.entries.sort(key=lambda each: each.offset)
        return offset

    def truncate(self, count: int) -> None:
        self.end = max(0, self.end - count)
        self.entries = [each for each in self.entries if each.offset < self.end]
        self.gaps = [each for each in self.gaps if each < self.end]

    def read(self, position: int, isolation: str | None, leak: bool) -> list[Entry]:
        stable = [each for each in self.entries if each.offset >= position]
        if isolation != "read_committed" or leak:
            return stable
        first_open = min((e.offset for e in self.entries if e.txn and e.txn.state == "open"), default=self.end)
        return [
            each for each in stable if each.offset < first_open and (each.txn is None or each.txn.state == "committed")
        ]


@dataclass
class Client:
    process: int
    worker: int
    role: str
    isolation: str
    producer: int
    free_at: int = 0
    positions: dict[int, int] = field(default_factory=dict)
    running: Iterator[None] | None = None


@dataclass
class Draft:
    """A history whose rows can still be changed: operations with their mops under "mops"."""

    ops: list[Row]
    coverage: list[Row]


class Simulation:
    def __init__(self, random: Random, bugs: frozenset[str] = frozenset()) -> None:
        self.random = random
        self.bugs = bugs
        self.now = 0
        self.next_value = 0
        self.next_invented = _FIRST_INVENTED_VALUE
        self.ops: list[Row] = []
        self.coverage: list[Row] = []
        self.open: list[Txn] = []
        self.keys = sorted(set(random.choices((0, 0, 0, 0, 1, 1, 2, 3), k=random.randint(1, 2))))
        self.logs = {key: Log() for key in self.keys}
        count = random.randint(2, 4)
        self.clients = [self._client(process) for process in range(count)]
        self.next_process = count

    def run(self, operations: int) -> Draft:
        started = 0
        while started < operations or any(client.running for client in self.clients):
            self.tick()
            client = self.random.choice(self.clients)
            if client.running is not None:
                if next(client.running, "end") == "end":
                    client.running = None
            elif self.now < client.free_at:
                self.now = client.free_at
            elif started < operations and client.process < _FIRST_FINAL_PROCESS:
                started += 1
                client.running = self._operation(client)
                next(client.running, None)
            elif all(each.process >= _FIRST_FINAL_PROCESS for each in self.clients):
                started = operations
            self._damage()
        self._finish()
        return Draft(self.ops, self.coverage)

    # What can happen

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def tick(self) -> None:
        self.now += self.random.randint(1, 4)

    def has(self, bug: str, probability: float = 0.4) -> bool:
        return bug in self.bugs and self.chance(probability)

    def _client(self, process: int) -> Client:
        role = self.random.choice(("producer", "consumer", "consumer", "both", "txn", "txn"))
        return Client(
            process=process,
            worker=self.random.randint(0, 3),
            role=role if process else self.random.choice(("producer", "txn")),
            isolation=self.random.choice(("read_uncommitted", "read_committed", "read_committed")),
            producer=self.random.choice((0, 0, 0, 1, 2, 3, 4, 5)),
        )

    def _damage(self) -> None:
        log = self.logs[self.random.choice(self.keys)]
        if log.entries and self.has("lose", 0.15):
            log.entries.remove(self.random.choice(log.entries))
        if log.entries and self.has("truncate", 0.15):
            log.truncate(self.random.randint(1, 2))

    def _operation(self, client: Client) -> Iterator[None]:
        kinds = {
            "producer": (self._send,),
            "consumer": (self._poll, self._poll, self._poll, self._assign),
            "both": (self._send, self._poll, self._poll, self._assign),
            "txn": (self._txn, self._txn, self._send, self._poll),
        }[client.role]
        return self.random.choice(kinds)(client)

    def _begin(self, client: Client, f: str, **columns: Any) -> Row:
        op: Row = {
            "op": len(self.ops),
            "process": client.process,
            "worker": client.worker,
            "f": f,
            "type": "ok",
            "invoke_ns": self.now,
            "complete_ns": None,
            "commit_ns": None,
            "phase": "main",
            "isolation": client.isolation if f in ("poll", "txn", "assign") else None,
            "acks": None,
            "mops": [],
            **columns,
        }
        self.ops.append(op)
        return op

    def _end(self, client: Client, op: Row, outcome: str) -> None:
        op["type"] = outcome
        done = [each["complete_ns"] for each in op["mops"] if each["complete_ns"] is not None]
        client.free_at = max([self.now, *done]) + 1
        op["complete_ns"] = client.free_at
        if outcome == "info":
            if self.chance(0.3):
                op["complete_ns"] = None
            client.process, self.next_process = self.next_process, self.next_process + 1
            client.positions = {}

    def _mop(self, op: Row, kind: str, key: int, **columns: Any) -> Row:
        mop: Row = {
            "mop": op["mops"][-1]["mop"] + 1 if op["mops"] else 0,
            "pos": 0,
            "kind": kind,
            "key": key,
            "invoke_ns": self.now,
            "complete_ns": self.now + 1,
            **columns,
        }
        op["mops"].append(mop)
        return mop

    # Sends

    def _send(self, client: Client) -> Iterator[None]:
        op = self._begin(client, "send")
        producer = client.producer if self.chance(0.9) else self.random.randint(0, 5)
        for _ in range(self.random.choice((1, 1, 2, 3))):
            self._send_step(op, producer, None, self.random.choices(("ok", "info", "fail"), (84, 10, 6))[0])
            yield
            self.tick()
        outcomes = {each["status"] for each in op["mops"]}
        outcome = outcomes.pop() if len(outcomes) == 1 else "info" if "info" in outcomes else "ok"
        self._end(client, op, outcome)

    def _send_step(self, op: Row, producer: int, txn: Txn | None, status: str) -> None:
        key, value = self.random.choice(self.keys), self.next_value
        self.next_value += 1
        # A client does not commit a transaction of which a send was not delivered: in one, all are.
        maybe = status == "info" and (txn is not None or self.chance(0.5))
        applied = status == "ok" or maybe or self.has("apply-failed")
        offset = self._append(key, value, txn) if applied else None
        if producer == _ACKS_0:
            status = "ok"
            offset = offset if self.chance(0.3) else None
        acknowledged = status == "ok" and not self.chance(0.06)
        unknown_topic = status == "info" and self.chance(0.2)
        if offset is not None and self.has("misplace"):
            offset = max(0, offset + self.random.choice((-1, 1)))
        self._mop(
            op,
            "send",
            -1 if unknown_topic else key,
            offset=offset if acknowledged else None,
            value=value,
            status=status,
            producer=producer,
            complete_ns=None if status == "info" and self.chance(0.3) else self.now + self.random.randint(1, 9),
        )

    def _append(self, key: int, value: int, txn: Txn | None) -> int:
        log = self.logs[key]
        if self.chance(0.3 if "reorder" in self.bugs else 0.06):
            log.gap()
        if txn is not None:
            txn.keys.add(key)
        if log.gaps and self.has("reorder"):
            return log.insert(value, txn)
        offset = log.append(value, txn)
        if self.has("repeat"):
            log.append(value, txn)
        return offset

    def _txn(self, client: Client) -> Iterator[None]:
        op = self._begin(client, "txn")
        producer = client.producer if client.producer != _ACKS_0 else 0
        outcome = self.random.choices(("ok", "info", "fail"), (60, 22, 18))[0]
        before = dict(client.positions)
        txn = Txn()
        self.open.append(txn)
        for _ in range(self.random.choice((1, 2, 2, 3))):
            if self.chance(0.25):
                self._poll_step(client, op)
            else:
                status = "ok" if outcome == "ok" or self.chance(0.7) else "info"
                self._send_step(op, producer, txn, status)
            yield
            self.tick()
        if outcome == "ok" or (outcome == "info" and self.chance(0.7)) or self.chance(0.2):
            op["commit_ns"] = self.now
            yield
            self.tick()
        stays_open = outcome == "info" and self.chance(0.5)
        commits = outcome == "ok" or (outcome == "info" and op["commit_ns"] is not None and self.chance(0.6))
        if not stays_open:
            self._settle(txn, commits)
        if outcome == "fail":
            client.positions = before
        self._end(client, op, outcome)

    def _settle(self, txn: Txn, commits: bool) -> None:
        """Commits or aborts. Its markers take an offset in each of its keys."""
        txn.state = "committed" if commits else "aborted"
        self.open.remove(txn)
        for key in sorted(txn.keys):
            if self.chance(0.5):
                self.logs[key].gap()
        mine = [(log, each) for log in self.logs.values() for each in log.entries if each.txn is txn]
        if mine and self.has("tear", 0.6):
            log, entry = self.random.choice(mine)
            log.entries.remove(entry)

    # Polls

    def _poll(self, client: Client) -> Iterator[None]:
        op = self._begin(client, "poll")
        before = dict(client.positions)
        for number in range(self.random.choice((1, 1, 1, 2))):
            if number:
                yield
                self.tick()
                if self.chance(0.2):
                    self._boundary(client, op, self.random.choice(self.keys))
            self._poll_step(client, op)
        outcome = self.random.choices(("ok", "info", "fail"), (88, 4, 8))[0]
        if outcome == "fail":
            client.positions = before
        self._end(client, op, outcome)

    def _poll_step(self, client: Client, op: Row, limit: int = 3) -> None:
        mop = op["mops"][-1]["mop"] + 1 if op["mops"] else 0
        position = 0
        for key in self.random.sample(self.keys, len(self.keys)):
            for entry in self._fetch(client, key, limit):
                polled = self._mop(op, "poll", key, offset=entry.offset, value=entry.value)
                polled |= {"mop": mop, "pos": position}
                position += 1
                self._invent(polled)

    def _fetch(self, client: Client, key: int, limit: int) -> list[Entry]:
        log = self.logs[key]
        start = client.positions.get(key)
        if start is None:
            start = 0 if self.chance(0.6) else self.random.randint(0, log.end)
        if self.has("skip", 0.3):
            start += self.random.randint(1, 2)
        if self.has("go-back", 0.3):
            start = max(0, start - self.random.randint(1, 2))
        found = log.read(start, client.isolation, leak="leak" in self.bugs)[: self.random.randint(0, limit)]
        if len(found) >= 2 and self.has("skip", 0.2):
            found.pop(self.random.randint(0, len(found) - 1))
        if len(found) >= 2 and self.has("go-back", 0.2):
            self.random.shuffle(found)
        # A reader that has nothing to read keeps its place, so that what comes later is not skipped.
        client.positions[key] = max((each.offset + 1 for each in found), default=start)
        return found

    def _invent(self, polled: Row) -> None:
        if self.has("invent", 0.3):
            kind = self.random.choice(("nobody", "other", "misrouted", "checksum", "foreign-run"))
            if kind == "nobody":
                polled["value"], self.next_invented = self.next_invented, self.next_invented + 1
            elif kind == "other":
                polled["value"] = self.random.randint(0, self.next_value)
            else:
                polled["defect"] = kind
                polled["value"] = polled["value"] if self.chance(0.5) else None

    def _assign(self, client: Client) -> Iterator[None]:
        op = self._begin(client, "assign")
        for key in self.keys:
            if self.chance(0.7):
                self._boundary(client, op, key)
        self._end(client, op, "ok")
        yield

    def _boundary(self, client: Client, op: Row, key: int) -> None:
        start = self.random.choice((0, client.positions.get(key, 0), self.random.randint(0, self.logs[key].end)))
        client.positions[key] = start
        if not self.has("hide-boundary", 0.7):
            kind = self.random.choice(("seek", "seek", "reset", "resume"))
            self._mop(op, kind, key, offset=start if self.chance(0.7) else None)

    # The final phase

    def _finish(self) -> None:
        for txn in list(self.open):
            self._settle(txn, commits=False)
        self.now += 50
        process = _FIRST_FINAL_PROCESS
        for key in self.keys:
            log = self.logs[key]
            log_start = 0 if self.chance(0.65) else self.random.randint(0, log.end)
            if self.chance(0.6):
                client = Client(15, 0, "producer", "read_committed", 0, self.now)
                op = self._begin(client, "send", phase="final")
                offset = log.append(self.next_value, None)
                self._mop(op, "send", key, offset=offset, value=self.next_value, status="ok", producer=0)
                self.next_value += 1
                self._end(client, op, "ok")
                self.now = client.free_at + 1
            for isolation in ("read_uncommitted", "read_committed"):
                self._scan(key, isolation, process, log_start)
                process += 1

    def _scan(self, key: int, isolation: str, process: int, log_start: int) -> None:
        log = self.logs[key]
        coverage = self.random.choices(("complete", "incomplete", "missing", "no scan"), (70, 12, 6, 12))[0]
        if coverage == "no scan":
            return
        client = Client(process, self.random.randint(0, 3), "consumer", isolation, 0)
        op = self._begin(client, "assign", phase="final")
        self._mop(op, "seek", key, offset=log_start)
        self._end(client, op, "ok")
        self.now = client.free_at + 1
        found = log.read(log_start, isolation, leak="leak" in self.bugs)
        if coverage != "complete":
            found = found[: self.random.randint(0, len(found))]
        elif found and self.has("lose"):
            found.remove(self.random.choice(found))
        op = self._begin(client, "poll", phase="final")
        for number, entry in enumerate(found):
            self._mop(op, "poll", key, offset=entry.offset, value=entry.value, mop=0, pos=number)
        self._end(client, op, "ok")
        self.now = client.free_at + 1
        if coverage != "missing":
            self.coverage.append(
                {
                    "key": key,
                    "isolation": isolation,
                    "complete": coverage == "complete",
                    "log_start": log_start,
                    "high_watermark": log.end,
                    "last_stable_offset": log.end,
                    "position": log.end if coverage == "complete" else log_start,
                    "reason": None if coverage == "complete" else "cluster",
                }
            )
