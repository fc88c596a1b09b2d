"""Jepsen's Kafka-workload histories: import them to be judged here, export ours to be judged there.

How a history of theirs becomes one of ours:

- A key is any integer; it becomes the partition of a topic ``jepsen``. Values are unique only within a key
  there, so a value becomes ``key id * 2**40 + value``; ``original_value`` takes it back.
- Invocation and completion become one operation. What the completion says counts; where it says nothing,
  the invocation's. An invocation that never completes is info.
- ``assign`` starts a new position in each key that the process did not have. ``subscribe``, and a
  ``:rebalance-log`` of any operation, start one in every key named; a subscribe also in every key that
  the process had before, because nobody knows which it keeps.
- Nothing says when a commit was requested, and there are no final scans: ``commit_ns`` is null, ``coverage``
  is empty.
- Operations of the nemesis become events of kind ``nemesis``. Operations with another ``:f`` are left out.
- Lines are in real-time order, so a time that is lower than one before it is raised to that.
"""

from histories.jepsen.exporter import export_jepsen
from histories.jepsen.importer import import_jepsen
from histories.jepsen.values import original_value

__all__ = ["export_jepsen", "import_jepsen", "original_value"]
