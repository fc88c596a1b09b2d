"""Order inside a key: what lies between two successive records of one position, and two sends of one process.

Steps are walked by (process, op, mop, pos) with one window. Two records are *successive* when no
boundary (seek, reset, resume) lies between them and, in different operations, the earlier one ended ok.

- **nonmonotonic-poll** the later record's offset is not above the earlier one's.
- **poll-skip** it is above, and a known version lies strictly between: any value for read_uncommitted,
  a committed one for read_committed.
- A value that was read at several offsets counts with its first one: who sees it again went back.
  Such a case breaks a promise only where the duplicate itself does; a producer that retries without
  idempotence may leave two copies, and readers of a correct Kafka see both.
- **nonmonotonic-send** successive acknowledged sends of one process to one key got decreasing offsets.
- **int-send-skip** between two acknowledged sends of one operation lies another known version: normal.
- ``int-`` of each: inside one operation.
- **inconsistent-offset** two values known at one offset.

Only pairs with a gap can have something between them. Those, as *probes*, and the log's versions are
walked once by offset: the last version before the probe's upper end, if above its lower end, lies
between. Offsets are sparse (markers, aborted data), so nothing here is an array by offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkers.load import OK, History
from checkers.promises import fatal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def cases(history: History, settled: DataFrame, log: DataFrame, known: DataFrame) -> DataFrame:
    compared = pairs(history, settled, known)
    return backwards(history, compared).unionByName(along_offsets(history, compared, log, known))


def pairs(history: History, settled: DataFrame, known: DataFrame) -> DataFrame:
    """Each step with the one before it in its position (``low``, ``low_op``, ``low_again``)."""
    from pyspark.sql import Window
    from pyspark.sql import functions as fn

    again = known.where("places > 1").selectExpr(
        "key AS again_key", "value AS again_value", "first_read", "COALESCE(idempotent, true) AS once"
    )
    steps = settled.where(
        f"key >= 0 AND (boundary OR (polled AND offset IS NOT NULL) OR (sent AND fate = {OK} AND offset IS NOT NULL))"
    ).select(
        "key", "process", "sent", "op", "mop", "pos", "offset", "value", "boundary", "op_ok", "committed_only",
        "producer",
    )  # fmt: skip
    placed = (
        steps.join(fn.broadcast(again), fn.expr("NOT sent AND key = again_key AND value = again_value"), "left")
        .withColumn("place", fn.expr("COALESCE(first_read, offset)"))
        .withColumn("again", fn.expr("first_read IS NOT NULL"))
        .drop("again_key", "again_value", "first_read")
    )
    walk = Window.partitionBy("key", "process", "sent").orderBy("op", "mop", "pos")
    for name in ("place", "op", "value", "again", "once", "boundary", "op_ok"):
        placed = placed.withColumn(f"low_{name}", fn.lag(name).over(walk))
    successive = "NOT boundary AND low_op IS NOT NULL AND NOT low_boundary AND (sent OR low_op = op OR low_op_ok)"
    return (
        placed.where(f"{successive} AND NOT {history.compacted}")
        .withColumn("unclean", fn.expr(history.unclean))
        .withColumn("safe", fn.expr(history.promises.safe))
        .withColumn("idempotent", fn.expr(history.promises.idempotent))
        .withColumn("single", fn.expr(history.promises.single))
    )


def backwards(history: History, compared: DataFrame) -> DataFrame:
    found = compared.where("((sent AND place < low_place) OR (NOT sent AND place <= low_place))")
    name = "concat(CASE WHEN low_op = op THEN 'int-' ELSE '' END, 'nonmonotonic-', CASE WHEN sent THEN 'send' ELSE 'poll' END)"
    sends = fatal("nonmonotonic-send", void=history.void)
    return found.selectExpr(
        f"{name} AS anomaly",
        f"COALESCE(CASE WHEN sent THEN {sends} ELSE {_poll_promise(history)} END, false) AS fatal",
        *_place_of_case(),
    )


def along_offsets(history: History, compared: DataFrame, log: DataFrame, known: DataFrame) -> DataFrame:
    """Skips and inconsistent offsets, from one walk by offset over versions and probes."""
    from pyspark.sql import Window
    from pyspark.sql import functions as fn

    probes = compared.where("place > low_place + 1 AND (NOT sent OR low_op = op)")
    probes = probes.selectExpr(
        "key", "place", "CAST(1 AS tinyint) AS class", "CAST(NULL AS boolean) AS is_committed", "value", "process", "op", "mop", "pos",
        "sent", "committed_only", "low_place", "low_op", "low_value", "low_op = op AS inside",
        f"COALESCE({_poll_promise(history)}, false) AS promised",
    )  # fmt: skip
    versions = _versions(history, log, known)
    united = versions.unionByName(probes, allowMissingColumns=True)
    walk = Window.partitionBy("key").orderBy("place", "class", "value")
    before = walk.rowsBetween(Window.unboundedPreceding, -1)
    walked = (
        united.withColumn("last_any", fn.max(fn.expr("CASE WHEN class > 1 THEN place END")).over(before))
        .withColumn(
            "last_committed",
            fn.max(fn.expr("CASE WHEN class > 1 AND is_committed THEN place END")).over(before),
        )
        .withColumn("beside_place", fn.lag("place").over(walk))
        .withColumn("beside_class", fn.lag("class").over(walk))
        .withColumn("beside_value", fn.lag("value").over(walk))
        .withColumn("beside_op", fn.lag("op").over(walk))
    )
    skipped = walked.where(
        "class = 1 AND (CASE WHEN committed_only AND NOT sent THEN last_committed ELSE last_any END) > low_place"
    ).selectExpr(
        "concat(CASE WHEN inside THEN 'int-' ELSE '' END, CASE WHEN sent THEN 'send-skip' ELSE 'poll-skip' END) AS anomaly",
        "promised AND NOT sent AS fatal", "key", "value", "place AS offset", "process", "op", "mop", "pos",
        "low_op AS other_op", "low_place AS other_offset", "low_value AS other_value",
    )  # fmt: skip
    void = "false" if history.void else "true"
    clashes = (
        walked.where("class > 1 AND beside_class > 1 AND beside_place = place AND beside_value <> value")
        .withColumn("strong", fn.expr(f"class = 2 AND beside_class = 2 AND promised AND {void}"))
        .groupBy("key", "place")
        .agg(
            fn.expr("bool_or(strong) AS fatal"),
            fn.expr("min(value) AS value"),
            fn.expr("min(process) AS process"),
            fn.expr("min(op) AS op"),
            fn.expr("min(beside_op) AS other_op"),
            fn.expr("min(beside_value) AS other_value"),
        )
        .selectExpr(
            "'inconsistent-offset' AS anomaly",
            "fatal",
            "key",
            "value",
            "place AS offset",
            "process",
            "op",
            "CAST(NULL AS int) AS mop",
            "CAST(NULL AS int) AS pos",
            "other_op",
            "place AS other_offset",
            "other_value",
        )
    )
    return skipped.unionByName(clashes)


def _versions(history: History, log: DataFrame, known: DataFrame) -> DataFrame:
    """What is known at each offset. Values whose place is certain (read, or safely acknowledged) are of
    class 2 and come first at their offset: two of them beside each other break a promise, while one of
    class 3, whose acknowledgement proves little, does not."""
    from pyspark.sql import functions as fn

    uncommitted = known.where("NOT committed AND reads > 0").selectExpr(
        "key AS u_key", "value AS u_value", "true AS uncommitted"
    )
    return (
        log.where(f"offset IS NOT NULL AND (reads > 0 OR fate = {OK})")
        .join(fn.broadcast(uncommitted), fn.expr("key = u_key AND value = u_value"), "left")
        .withColumn("safe", fn.expr(history.promises.safe))
        .withColumn("unclean", fn.expr(history.unclean))
        .selectExpr(
            "key",
            "offset AS place",
            "CAST(CASE WHEN reads > 0 OR safe THEN 2 ELSE 3 END AS tinyint) AS class",
            "value",
            "send_process AS process",
            "COALESCE(send_op, read_op) AS op",
            "NOT unclean AS promised",
            "uncommitted IS NULL AS is_committed",
        )
    )


def _poll_promise(history: History) -> str:
    """A poll's promise: the topic's, unless a duplicated value is involved; then the duplicate's."""
    if history.void:
        return "false"
    return "NOT unclean AND (NOT again OR once) AND (NOT low_again OR low_once)"


def _place_of_case() -> tuple[str, ...]:
    return (
        "key", "value", "offset", "process", "op", "mop", "pos", "low_op AS other_op", "low_place AS other_offset",
        "low_value AS other_value",
    )  # fmt: skip
