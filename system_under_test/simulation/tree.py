"""ZooKeeper's tree: nodes, versions, transaction ids. A pure data structure; who may call and who is told is elsewhere.

A transaction is all or nothing: :meth:`Tree.transact` applies each change, remembers how to undo it, and takes all
back when one is refused. What it returns besides results are the watch events that follow from it, in ZooKeeper's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from system_under_test.world import (
    BadVersion,
    Change,
    Check,
    CoordinationError,
    Create,
    Delete,
    NodeExists,
    NodeStat,
    NoNode,
    NotEmpty,
    SetData,
    WatchEvent,
)

Event = tuple[str, WatchEvent]


@dataclass(slots=True)
class TreeNode:
    data: bytes
    czxid: int
    mzxid: int
    pzxid: int
    """Transaction that last made or removed a child."""
    ctime_ms: int
    mtime_ms: int
    ephemeral_owner: int = 0
    version: int = 0
    created_children: int = 0
    """The next sequential child's number."""
    children: dict[str, None] = field(default_factory=dict)

    def stat(self) -> NodeStat:
        return NodeStat(self.version, self.czxid, self.mzxid, self.ephemeral_owner, self.ctime_ms, self.mtime_ms)


@dataclass(frozen=True, slots=True)
class Sequential:
    """A creation whose name gets a number. Never part of a larger transaction here."""

    path: str
    data: bytes
    ephemeral: bool


class Tree:
    def __init__(self) -> None:
        self.zxid = 0
        self.nodes: dict[str, TreeNode] = {"/": TreeNode(b"", 0, 0, 0, 0, 0)}
        self.ephemerals: dict[int, dict[str, None]] = {}
        """Paths by session."""

    def node(self, path: str) -> TreeNode:
        found = self.nodes.get(path)
        if found is None:
            raise NoNode(path)
        return found

    def transact(
        self, changes: Sequence[Change | Sequential], session: int, now_ms: int
    ) -> tuple[list[tuple[str, NodeStat | None]], list[Event]]:
        """Path and stat (None for Delete and Check) of each change, and what watchers are to be told."""
        self.zxid += 1
        results: list[tuple[str, NodeStat | None]] = []
        events: list[Event] = []
        undo: list[Callable[[], None]] = []
        try:
            for change in changes:
                results.append(self._apply(change, session, now_ms, events, undo))
        except CoordinationError:
            for step in reversed(undo):
                step()
            raise
        return results, events

    def _apply(
        self,
        change: Change | Sequential,
        session: int,
        now_ms: int,
        events: list[Event],
        undo: list[Callable[[], None]],
    ) -> tuple[str, NodeStat | None]:
        match change:
            case Create(path, data, ephemeral):
                return path, self._create(path, data, session if ephemeral else 0, now_ms, events, undo)
            case Sequential(prefix, data, ephemeral):
                path = f"{prefix}{self.node(_parent(prefix)).created_children:010d}"
                return path, self._create(path, data, session if ephemeral else 0, now_ms, events, undo)
            case SetData(path, data, version):
                return path, self._set(path, data, version, now_ms, events, undo)
            case Delete(path, version):
                self._delete(path, version, events, undo)
            case Check(path, version):
                _check(self.node(path), path, version)
        return change.path, None

    def _create(
        self, path: str, data: bytes, owner: int, now_ms: int, events: list[Event], undo: list[Callable[[], None]]
    ) -> NodeStat:
        parent_path = _parent(path)
        parent = self.node(parent_path)
        if path in self.nodes:
            raise NodeExists(path)
        if parent.ephemeral_owner:
            raise CoordinationError(f"{parent_path} is ephemeral and cannot have children")
        name = path.rpartition("/")[2]
        before = (parent.pzxid, parent.created_children)
        made = self.nodes[path] = TreeNode(data, self.zxid, self.zxid, self.zxid, now_ms, now_ms, owner)
        parent.children[name] = None
        parent.pzxid, parent.created_children = self.zxid, parent.created_children + 1
        if owner:
            self.ephemerals.setdefault(owner, {})[path] = None

        def take_back() -> None:
            del self.nodes[path], parent.children[name]
            parent.pzxid, parent.created_children = before
            if owner:
                del self.ephemerals[owner][path]

        undo.append(take_back)
        events += [(path, WatchEvent.CREATED), (parent_path, WatchEvent.CHILDREN)]
        return made.stat()

    def _set(
        self,
        path: str,
        data: bytes,
        version: int,
        now_ms: int,
        events: list[Event],
        undo: list[Callable[[], None]],
    ) -> NodeStat:
        node = self.node(path)
        _check(node, path, version)
        before = (node.data, node.version, node.mzxid, node.mtime_ms)

        def take_back() -> None:
            node.data, node.version, node.mzxid, node.mtime_ms = before

        undo.append(take_back)
        node.data, node.version, node.mzxid, node.mtime_ms = data, node.version + 1, self.zxid, now_ms
        events.append((path, WatchEvent.CHANGED))
        return node.stat()

    def _delete(self, path: str, version: int, events: list[Event], undo: list[Callable[[], None]]) -> None:
        node = self.node(path)
        _check(node, path, version)
        if node.children:
            raise NotEmpty(path)
        parent_path, name = _parent(path), path.rpartition("/")[2]
        parent = self.nodes[parent_path]
        before = parent.pzxid
        del self.nodes[path], parent.children[name]
        parent.pzxid = self.zxid
        if node.ephemeral_owner:
            del self.ephemerals[node.ephemeral_owner][path]

        def take_back() -> None:
            self.nodes[path] = node
            parent.children[name] = None
            parent.pzxid = before
            if node.ephemeral_owner:
                self.ephemerals[node.ephemeral_owner][path] = None

        undo.append(take_back)
        events += [(path, WatchEvent.DELETED), (parent_path, WatchEvent.CHILDREN)]

    def end_session(self, session: int, now_ms: int) -> list[Event]:
        """Its ephemeral nodes vanish, in one transaction."""
        paths = list(self.ephemerals.get(session, ()))
        _, events = self.transact([Delete(each) for each in paths], session, now_ms)
        self.ephemerals.pop(session, None)
        return events


def _check(node: TreeNode, path: str, version: int) -> None:
    if version not in (-1, node.version):
        raise BadVersion(f"{path} is at version {node.version}, not {version}")


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
