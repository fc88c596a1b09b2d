"""An asyncio event loop whose time is virtual and whose every step repeats from a seed.

Nothing waits: when no callback is ready, time jumps to the next timer. Callbacks run in the order in which they became
ready, timers of one moment in the order in which they were set; chance enters only through the seeded delays of the
simulated network, disks and coordination.

Several nodes share the loop, each as if it had one of its own. A callback belongs to the :class:`Node` of the
``contextvars`` context that it was scheduled in, and so does everything that it starts. A paused node's callbacks are
held back, as after SIGSTOP; those of a killed node are dropped for good, as after SIGKILL. A node can also be struck in
the middle of work that takes no virtual time: after a number of its own steps (:meth:`Node.strike_after_steps`).

Why not a library: ``simloop`` and ``simloom`` want Python 3.12, ``async-solipsism`` is GPL, and ``seedloop`` is a
scheduler without nodes that can be paused, killed or lose power one by one, which is what this simulation is about.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

_STEPS_PER_MOMENT = 200_000
"""So many steps without any time passing: somebody spins."""


class Killed(BaseException):
    """Leaves the synchronous work of a node that has just died. No ``Exception``: nothing may catch it."""


class Node:
    """One life of a simulated process: from its start to its death. A restart is another Node."""

    __slots__ = (
        "_fuse",
        "_loop",
        "_struck",
        "_tasks",
        "alive",
        "context",
        "held",
        "name",
        "paused",
        "plain",
        "touched",
    )

    def __init__(self, loop: SimulatedLoop, name: str) -> None:
        self._loop = loop
        self.name = name
        self.alive = True
        self.paused = False
        self.plain = True
        """Runs without further questions: alive, not paused, no strike pending. One look per step."""
        self.touched = False
        """Did something since somebody looked and took this back."""
        self.held: deque[_Handle] = deque()
        self._fuse = 0
        self._struck: Callable[[], None] | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self.context = copy_context()
        self.context.run(_node.set, self)

    def __repr__(self) -> str:
        return f"<{self.name}{'' if self.alive else ', dead'}{', paused' if self.paused else ''}>"

    def start(self, coroutine: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run something on this node."""
        assert self.alive
        return self._loop.create_task(coroutine, name=name or self.name, context=self.context.copy())

    def pause(self) -> None:
        self.paused = True
        self._judge()

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            self._judge()
            self._loop._ready.extend(self.held)
            self.held.clear()

    def kill(self) -> None:
        """No callback runs again, and no ``finally`` block: the tasks are kept, pending, until the loop closes."""
        if not self.alive:
            return
        self.alive = False
        self._judge()
        self.held.clear()
        for task in asyncio.all_tasks(self._loop):
            if getattr(task, "node", None) is self:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                self._loop._graveyard.append(task)

    def strike_after_steps(self, steps: int, struck: Callable[[], None]) -> None:
        """Call ``struck`` between two steps of this node, when it has done so many."""
        assert steps > 0
        self._fuse, self._struck = steps, struck
        self._judge()

    def spare(self) -> None:
        """Forget a strike that has not come."""
        self._struck = None
        self._judge()

    def _judge(self) -> None:
        self.plain = self.alive and not self.paused and self._struck is None

    def _admits(self, handle: _Handle) -> bool:
        """The long answer, for nodes that are not ``plain``."""
        if not self.alive:
            return False
        if self.paused:
            self.held.append(handle)
            return False
        self._fuse -= 1
        if self._fuse < 0 and self._struck is not None:
            struck, self._struck = self._struck, None
            self._judge()
            struck()
            return self.plain or self._admits(handle)
        return True


_node: ContextVar[Node | None] = ContextVar("node", default=None)


def current_node() -> Node | None:
    """Whose step this is."""
    return _node.get()


class _Handle(asyncio.TimerHandle):
    """asyncio's handle without its bookkeeping: making one must cost next to nothing."""

    __slots__ = ("node",)

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None, when: float
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False
        self._when = when
        self.node: Node | None = None if context is None else context.get(_node)

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = _nothing
        self._args = ()

    def cancelled(self) -> bool:
        return self._cancelled

    def when(self) -> float:
        return self._when

    def __repr__(self) -> str:
        return f"<{self._callback!r} of {self.node} at {self._when}>"


class _Task(asyncio.Task[Any]):
    node: Node | None = None


class SimulatedLoop(AbstractEventLoop):
    """Made for one run: ``run(...)``, then ``close()``."""

    def __init__(self) -> None:
        self._now = 0.0
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[float, int, _Handle]] = []
        self._sequence = 0
        self._stopping = False
        self._closed = False
        self._graveyard: list[asyncio.Task[Any]] = []
        self.steps = 0
        self.on_moment: Callable[[], None] | None = None
        """Looks at everything whenever a moment is over, before time goes on."""
        self.failures: list[dict[str, Any]] = []
        """What went to the exception handler: tasks that died of an exception that nobody looked at."""

    # Time and scheduling.

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, copy_context() if context is None else context, self._now)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = _Handle(callback, args, copy_context() if context is None else context, when)
        self._sequence += 1
        heapq.heappush(self._timers, (when, self._sequence, handle))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def world_at(self, when: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Something that the world does and no node: wires, disks, faults. It runs whoever is paused or dead."""
        handle = _Handle(callback, args, None, when)
        self._sequence += 1
        heapq.heappush(self._timers, (when, self._sequence, handle))
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self,
        callback: Callable[..., object],  # noqa: ARG002
        *args: Any,  # noqa: ARG002
        context: Context | None = None,  # noqa: ARG002
    ) -> asyncio.Handle:
        raise RuntimeError("a simulated node has no threads")

    # Running.

    def run(self, main: Coroutine[Any, Any, T], within_s: float = float("inf")) -> T:
        """Run ``main`` on no node; TimeoutError when it takes longer than this of virtual time."""
        result: T = self.run_until_complete(main, within_s)
        return result

    def run_until_complete(self, future: Any, within_s: float = float("inf")) -> Any:
        assert not self._closed
        asyncio._set_running_loop(self)
        try:
            task = asyncio.ensure_future(future, loop=self)
            self._run(task, self._now + within_s)
        finally:
            asyncio._set_running_loop(None)
        if not task.done():
            raise TimeoutError(f"not done after {self._now} s of virtual time: {task}")
        return task.result()

    def _run(self, until: asyncio.Future[Any], deadline: float) -> None:
        ready, timers = self._ready, self._timers
        pop, pop_timer = ready.popleft, heapq.heappop
        done = until.done
        moment_steps = 0
        while not done():
            while ready:
                handle = pop()
                node = handle.node
                if node is not None:
                    if not node.plain and not node._admits(handle):
                        continue
                    node.touched = True
                moment_steps += 1
                context = handle._context
                if context is None:
                    handle._callback(*handle._args)
                else:
                    context.run(handle._callback, *handle._args)
                if done():
                    self.steps += moment_steps
                    return
                if moment_steps > _STEPS_PER_MOMENT:
                    raise RuntimeError(f"no time passes at {self._now}: {handle} and {list(ready)[:10]}")
            if self.on_moment is not None:
                self.on_moment()
            while timers and timers[0][2]._cancelled:
                pop_timer(timers)
            if not timers or timers[0][0] > deadline:
                self._now = self._now if deadline == float("inf") else deadline
                return
            self.steps += moment_steps
            moment_steps = 0
            when, _, handle = pop_timer(timers)
            if when > self._now:
                self._now = when
            if not handle._cancelled:
                ready.append(handle)
            while timers and timers[0][0] <= self._now:
                handle = pop_timer(timers)[2]
                if not handle._cancelled:
                    ready.append(handle)

    def run_forever(self) -> None:
        raise NotImplementedError("a simulation has an end: run_until_complete")

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Bury everything. What is still pending is dropped without a word."""
        if self._closed:
            return
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        pending = [*asyncio.all_tasks(self), *self._graveyard]
        self._graveyard.clear()
        for task in pending:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            # Their finally blocks run now, in a world where nobody is alive: what they raise says nothing.
            with suppress(Exception, Killed):
                coroutine = task.get_coro()
                if coroutine is not None:
                    coroutine.close()

    # What asyncio's futures and tasks ask for.

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        context = copy_context() if context is None else context
        task = _Task(coro, loop=self, name=name, context=context)
        task.node = context.get(_node)
        return task

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._closed and not isinstance(context.get("exception"), Killed):
            self.failures.append(context)

    async def shutdown_asyncgens(self) -> None:
        """Async generators end with their tasks."""


def make_loop() -> SimulatedLoop:
    """What asyncio's loops can do besides (sockets, signals, subprocesses) raises NotImplementedError here."""
    return SimulatedLoop()  # type: ignore[abstract]


def _nothing(*_: object) -> None:
    """A cancelled callback."""
