"""A worker whose clients live in memory, for tests: ``python -m tests.harness.fake_worker SPEC.json``."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from harness import worker
from harness.clients.base import Burst, ProducerConfig, TopicPartition
from harness.clients.registry import LIBRARIES
from harness.worker_spec import FINAL, WorkerSpec
from tests.harness.fake_clients import FakeLibrary, FakeProducer


class StuckProducer(FakeProducer):
    """Never comes back, whatever the time."""

    def send_burst(
        self,
        targets: Sequence[TopicPartition],  # noqa: ARG002
        payloads: Sequence[bytes],  # noqa: ARG002
        left_s: Callable[[], float],  # noqa: ARG002
        meanwhile: Callable[[], None] | None = None,  # noqa: ARG002
    ) -> Burst:
        threading.Event().wait()
        raise AssertionError("nobody sets it")


class BrokenProducer(FakeProducer):
    def send_burst(
        self,
        targets: Sequence[TopicPartition],  # noqa: ARG002
        payloads: Sequence[bytes],  # noqa: ARG002
        left_s: Callable[[], float],  # noqa: ARG002
        meanwhile: Callable[[], None] | None = None,  # noqa: ARG002
    ) -> Burst:
        raise ZeroDivisionError("a bug of ours")


class StuckLibrary(FakeLibrary):
    def producer(self, config: ProducerConfig, client_id: str) -> FakeProducer:
        return StuckProducer(self, config, client_id)


class BrokenLibrary(FakeLibrary):
    def producer(self, config: ProducerConfig, client_id: str) -> FakeProducer:
        return BrokenProducer(self, config, client_id)


if __name__ == "__main__":
    kinds: dict[str, type[FakeLibrary]] = {"fake": FakeLibrary, "stuck": StuckLibrary, "broken": BrokenLibrary}
    # In a whole run the fakes go by the name of the default; HOLD_SCANS lets its final scans never end.
    scanning = "HOLD_SCANS" in os.environ and WorkerSpec.read(Path(sys.argv[1])).mode == FINAL
    kinds["librdkafka"] = StuckLibrary if scanning else FakeLibrary
    for name, kind in kinds.items():
        LIBRARIES[name] = lambda _bootstrap, kind=kind: kind(time.monotonic_ns)  # type: ignore[misc]
    os._exit(worker.main(sys.argv[1:]))
