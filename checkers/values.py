"""Delivery: what became of each value.

Two aggregations below the exchange by key. The *log* has one row per key, value and offset: whether the
value was acknowledged there, how often and by whom it was read there. *Values* has one row per key and
value. With them every delivery anomaly is a condition on one row:

- **lost-write** committed, and a complete final scan lacks it (offset known: not below the log start;
  unknown: only where the log start is 0); or it was never read, and a reader whose position began at or
  below its acknowledged offset returned a record above it (``passed_over``).
- **vanished-read** read at or above the log start, and the complete raw scan lacks it; values of
  transactions that are not committed are exempt.
- **duplicate** read at two or more offsets. **misplaced-ack** acknowledged at one, read only at others.
- **phantom** read, and never sent to this key; or the record itself is defective.
- **aborted-read** read although its plain send failed, or by a read_committed reader although its
  transaction aborted. **early-read** read by one before commit was requested.
- **unseen** committed, never read, and no complete scan.
- **torn-transaction** of a committed transaction's values some are in complete read_committed scans and some are not.

Committed: a plain send that is ok, or info and read; a transaction that is ok, or info with a value that
a read_committed reader returned (``settle``). Deleted keys are exempt from loss and vanishing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkers.load import FAIL, INFO, OK, History
from checkers.promises import fatal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


UNREAD = "committed AND reads = 0 AND acked IS NOT NULL"


def settle(shared: DataFrame) -> DataFrame:
    """Give the sends of unknown transactions that a read_committed reader saw the fate *ok*."""
    from pyspark.sql import functions as fn

    unknown = shared.where(f"sent AND txn AND fate = {INFO}").select("key", "value", "op")
    seen = shared.where("polled AND committed_only").select("key", "value").distinct()
    proved = unknown.join(seen, ["key", "value"], "left_semi").select(fn.col("op").alias("proved_op")).distinct()
    joined = shared.join(fn.broadcast(proved), fn.expr("sent AND txn AND op = proved_op"), "left")
    fate = fn.expr(f"CASE WHEN proved_op IS NOT NULL THEN CAST({OK} AS tinyint) ELSE fate END")
    return joined.withColumn("fate", fate).drop("proved_op")


def log(settled: DataFrame) -> DataFrame:
    """One row per key, value and offset (null for sends whose offset nobody knows)."""
    return (
        settled.where("NOT boundary AND key >= 0")
        .groupBy("key", "value", "offset")
        .agg(
            *_expressions(
                """
                count_if(sent) AS sends
                min(CASE WHEN sent THEN fate END) AS fate
                min(CASE WHEN sent THEN producer END) AS producer
                min(CASE WHEN sent THEN op END) AS send_op
                min(CASE WHEN sent THEN mop END) AS send_mop
                min(CASE WHEN sent THEN pos END) AS send_pos
                min(CASE WHEN sent THEN process END) AS send_process
                min(CASE WHEN sent THEN complete_ns END) AS ack_ns
                min(CASE WHEN sent THEN commit_ns END) AS commit_ns
                min(CASE WHEN sent THEN worker END) AS send_worker
                bool_or(sent AND txn) AS txn
                bool_or(delivered) AS delivered
                count_if(polled) AS reads
                count_if(polled AND committed_only) AS committed_reads
                bool_or(polled AND final AND NOT committed_only) AS in_raw
                bool_or(polled AND final AND committed_only) AS in_committed
                min(CASE WHEN polled THEN op END) AS read_op
                min(CASE WHEN polled AND NOT final THEN complete_ns END) AS read_ns
                min(CASE WHEN polled AND committed_only THEN complete_ns END) AS committed_read_ns
                """
            )
        )
    )


def values(history: History, log_rows: DataFrame) -> DataFrame:
    """One row per key and value, with the promises of its producer and the settings of its key."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as fn

    grouped = log_rows.groupBy("key", "value").agg(
        *_expressions(
            f"""
            sum(sends) AS sends
            min(fate) AS fate
            min(producer) AS producer
            min(send_op) AS send_op
            min(send_mop) AS send_mop
            min(send_pos) AS send_pos
            min(send_process) AS send_process
            min(ack_ns) AS ack_ns
            min(commit_ns) AS commit_ns
            min(send_worker) AS send_worker
            bool_or(txn) AS txn
            bool_or(delivered) AS delivered
            sum(reads) AS reads
            sum(committed_reads) AS committed_reads
            bool_or(in_raw) AS in_raw
            bool_or(in_committed) AS in_committed
            min(read_op) AS read_op
            min(read_ns) AS read_ns
            min(committed_read_ns) AS committed_read_ns
            count_if(reads > 0) AS places
            min(CASE WHEN reads > 0 THEN offset END) AS first_read
            max(CASE WHEN reads > 0 THEN offset END) AS last_read
            max(CASE WHEN fate = {OK} THEN offset END) AS acked
            bool_or(fate = {OK} AND offset IS NOT NULL AND reads > 0) AS read_where_acked
            """
        )
    )
    committed = f"sends > 0 AND (fate = {OK} OR (fate = {INFO} AND NOT txn AND reads > 0))"
    return (
        grouped.withColumn("committed", fn.expr(committed))
        .withColumn("home", fn.expr("COALESCE(acked, first_read)"))
        .join(fn.broadcast(history.keys), "key", "left")
        .withColumn("safe", fn.expr(history.promises.safe))
        .withColumn("idempotent", fn.expr(history.promises.idempotent))
        .persist(StorageLevel.MEMORY_AND_DISK)
    )


def conditions(history: History) -> dict[str, str]:
    """Each delivery anomaly of one value, as SQL over a row of ``values``."""
    worst_error = max(history.meta.clock_error_ns.values(), default=0)
    kept = "NOT COALESCE(exempt, false) AND NOT COALESCE(compacted, false)"
    raw_lacks = "raw_complete AND NOT in_raw AND (home >= raw_start OR (home IS NULL AND raw_start = 0))"
    committed_lacks = (
        "committed_complete AND NOT in_committed "
        "AND (home >= committed_start OR (home IS NULL AND committed_start = 0))"
    )
    uncertain = "NOT raw_complete AND NOT committed_complete"
    trimmed = "home IS NULL AND ((raw_complete AND raw_start > 0) OR (committed_complete AND committed_start > 0))"
    return {
        "lost-write": f"committed AND {kept} AND (({raw_lacks}) OR ({committed_lacks}))",
        "vanished-read": f"reads > 0 AND sends > 0 AND {kept} AND raw_complete AND NOT in_raw "
        "AND last_read >= raw_start AND (NOT txn OR committed)",
        "duplicate": "places > 1",
        "misplaced-ack": "acked IS NOT NULL AND committed AND reads > 0 AND NOT read_where_acked",
        "phantom": "sends = 0",
        "aborted-read": f"sends > 0 AND fate = {FAIL} AND ((NOT txn AND reads > 0) OR (txn AND committed_reads > 0))",
        "early-read": f"txn AND committed_read_ns < commit_ns - {2 * worst_error}",
        "unseen": f"committed AND reads = 0 AND {kept} AND ({uncertain} OR ({trimmed}))",
        "#value-sent-twice": "sends > 1",
        "#unread": f"{UNREAD} AND {kept}",
        "#missing-of-sent": f"delivered AND {kept} AND raw_complete AND NOT in_raw AND (home IS NULL OR home >= raw_start)",
    }


def cases(history: History, known: DataFrame) -> DataFrame:
    from pyspark.sql import functions as fn

    hits = []
    for name, condition in conditions(history).items():
        promise = fatal(name, void=history.void) if not name.startswith("#") else "false"
        hits.append(
            f"CASE WHEN {condition} THEN named_struct('anomaly', '{name}', 'fatal', COALESCE({promise}, false)) END"
        )
    lag = (
        "CASE WHEN acked IS NOT NULL AND ack_ns IS NOT NULL AND read_ns IS NOT NULL THEN named_struct('anomaly', "
        "concat('#lag:', CAST(CAST(floor(8 * log2(greatest(read_ns - ack_ns, 1000))) AS int) AS string)), "
        "'fatal', false) END"
    )
    found = known.withColumn(
        "hit", fn.explode(fn.expr(f"filter(array({', '.join([*hits, lag])}), x -> x IS NOT NULL)"))
    )
    return found.selectExpr(
        "hit.anomaly", "hit.fatal", "key", "value", "home AS offset", "send_process AS process",
        "COALESCE(send_op, read_op) AS op", "send_mop AS mop", "send_pos AS pos", "read_op AS other_op",
        "CASE WHEN places > 1 THEN last_read ELSE first_read END AS other_offset", "CAST(NULL AS long) AS other_value",
    )  # fmt: skip


def phantoms(history: History) -> DataFrame:
    """Records that are defective by themselves; they take part in no other check."""
    return (
        history.mops.where("kind = 'poll' AND defect IS NOT NULL")
        .groupBy("key", "offset", "value")
        .agg(
            *_expressions(
                "min(process) AS process\nmin(op) AS op\nmin(mop) AS mop\nmin(pos) AS pos\nmin(defect) AS defect"
            )
        )
        .selectExpr(
            "'phantom' AS anomaly",
            "true AS fatal" if not history.void else "defect <> 'checksum' AS fatal",
            "key",
            "value",
            "offset",
            "process",
            "op",
            "mop",
            "pos",
            "CAST(NULL AS long) AS other_op",
            "CAST(NULL AS long) AS other_offset",
            "CAST(NULL AS long) AS other_value",
        )
    )


def passed_over(history: History, settled: DataFrame, known: DataFrame) -> DataFrame:
    """lost-write by a reader that passed the value's place in one position.

    Each position is an interval from where it began to the last record it returned. Walking a key's
    intervals and its unread values by offset, the furthest end of all intervals that began at or
    below a value tells whether a reader passed it.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as fn

    unread = known.where(
        f"{UNREAD} AND NOT COALESCE(exempt, false) "
        f"AND NOT COALESCE(compacted, false) AND NOT COALESCE({conditions(history)['lost-write']}, false)"
    ).selectExpr("acked AS place", "1 AS is_value", "CAST(NULL AS long) AS reached", "*")
    by_reader = Window.partitionBy("key", "process").orderBy("op", "mop", "pos")
    steps = settled.where("(polled OR boundary) AND key >= 0").select(
        "key", "process", "op", "mop", "pos", "offset", "boundary", "polled", "op_ok"
    )
    opened = fn.expr("boundary OR (previous_op <> op AND NOT previous_ok)")
    positions = (
        steps.withColumn("previous_op", fn.lag("op").over(by_reader))
        .withColumn("previous_ok", fn.lag("op_ok").over(by_reader))
        .withColumn("position", fn.sum(fn.when(opened, 1).otherwise(0)).over(by_reader))
        .groupBy("key", "process", "position")
        .agg(*_expressions("min(offset) AS place\nmax(CASE WHEN polled THEN offset END) AS reached"))
        .where("reached IS NOT NULL")
        .selectExpr("key", "place", "0 AS is_value", "reached")
    )
    both = unread.unionByName(positions, allowMissingColumns=True)
    along = Window.partitionBy("key").orderBy("place", "is_value").rowsBetween(Window.unboundedPreceding, -1)
    lost = both.withColumn("furthest", fn.max("reached").over(along)).where("is_value = 1 AND furthest > place")
    promise = fatal("lost-write", void=history.void)
    return lost.selectExpr(
        "'lost-write' AS anomaly", f"COALESCE({promise}, false) AS fatal", "key", "value", "place AS offset",
        "send_process AS process", "send_op AS op", "send_mop AS mop", "send_pos AS pos",
        "CAST(NULL AS long) AS other_op", "furthest AS other_offset", "CAST(NULL AS long) AS other_value",
    )  # fmt: skip


def torn(history: History, known: DataFrame) -> DataFrame:
    promise = fatal("torn-transaction", void=history.void)
    return (
        known.where(
            "txn AND committed AND committed_complete AND NOT exempt AND NOT compacted "
            "AND (home >= committed_start OR (home IS NULL AND committed_start = 0))"
        )
        .groupBy("send_op")
        .agg(
            *_expressions(
                f"""
                count_if(in_committed) AS present
                count_if(NOT in_committed) AS missing
                bool_and(COALESCE({promise}, false)) AS promised
                min(CASE WHEN NOT in_committed THEN key END) AS key
                min(CASE WHEN NOT in_committed THEN value END) AS value
                min(CASE WHEN NOT in_committed THEN home END) AS offset
                min(send_process) AS process
                """
            )
        )
        .where("present > 0 AND missing > 0")
        .selectExpr(
            "'torn-transaction' AS anomaly",
            "promised AS fatal",
            "key",
            "value",
            "offset",
            "process",
            "send_op AS op",
            "0 AS mop",
            "0 AS pos",
            "CAST(NULL AS long) AS other_op",
            "CAST(NULL AS long) AS other_offset",
            "CAST(NULL AS long) AS other_value",
        )
    )


def _expressions(text: str) -> list[Column]:
    from pyspark.sql import functions as fn

    return [fn.expr(line.strip()) for line in text.strip().splitlines()]


if TYPE_CHECKING:
    from pyspark.sql import Column
