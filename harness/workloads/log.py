"""Workload *log*: a partitioned log under plain producers and consumers.

Promise under test: nothing is lost, duplicated, reordered or invented.

Operations
  send     One record, or a burst of up to ``clients.burst`` pipelined ones, each with a value of its own. Half
           of the bursts go to one key (order inside a burst), half anywhere. All producers of a worker share its
           part of ``clients.rate``.
  poll     What has arrived at a consumer, up to 500 records.
  assign   A consumer takes a random set of keys, from explicit offsets: the log start, the present end, or where
           this logical consumer left each key. It does so at first, now and then, and after each crash. One
           ``seek`` per key.
  crash    The client object is dropped without notice. Half of the producers' crashes come in the middle of a
           burst, which then ends as ``info`` with the error ``crash`` and has no operation of its own.
  Key retirement: with ``topic.writes_per_key`` the writers leave a topic after about so many sends to each key
  and go on with the next of the topics that the runner has made. Consumers go on reading all of them.

Processes. After an ``info`` the logical client goes on under a new process id with a new client object; so it does
after a crash. With acks=0 every send is ``info`` by nature, and a producer goes on as long as its client
reports the records as handed over: nothing that the checks compare by process (acknowledged offsets) exists.

A poll that fails keeps what it saw; then the consumer goes back, with recorded seeks, to where the poll began.
A position that the broker does not have is recorded as ``reset`` to the log start. After five failed polls in a
row the consumer gives up its process and starts anew elsewhere.

``clients.on_error = "stop"``: a producer whose send did not succeed stops for good, as an application that must
not go on after a gap.

Half of the consumers read committed, half uncommitted. Left out: groups, commits, transactions, compaction.
"""

from __future__ import annotations

import math

from harness.clients.registry import libraries_of
from harness.plan import Plan
from harness.workloads.base import Context, LogicalClient
from harness.workloads.log_consumer import LogConsumer
from harness.workloads.log_producer import LogProducer
from histories.schema import Isolation

ISOLATIONS = (Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED)


def clients(context: Context) -> list[LogicalClient]:
    """The logical clients of one worker."""
    plan = context.plan.clients
    kinds = len(libraries_of(plan))
    producers = [LogProducer(context, slot, slot % kinds) for slot in range(plan.producers)]
    # The isolations are dealt out across all workers, so that one consumer in each still gives both.
    first = context.worker * plan.consumers
    consumers = [
        LogConsumer(context, slot, (slot // 2) % kinds, ISOLATIONS[(first + slot) % 2])
        for slot in range(plan.consumers)
    ]
    return [*producers, *consumers]


def topic_count(plan: Plan) -> int:
    """How many topics the runner makes ahead, so that retirement never runs out (at most 100)."""
    if not plan.topic.writes_per_key:
        return 1
    rate = plan.clients.rate or 20_000
    needed = rate * plan.time_limit_s / (plan.topic.writes_per_key * plan.topic.partitions)
    return min(100, math.ceil(needed) + 1)
