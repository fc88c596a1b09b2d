"""**realtime-order**: a send that began after another was acknowledged got a lower offset of the same key.

Each acknowledged send is two moments on its key's time line: when it was asked for and when it was
acknowledged. Walking the moments in order, the highest offset acknowledged so far must be below the
offset that a send beginning now will get. Clock errors of workers widen every gap: an acknowledgement
counts its own later, an invocation its own earlier. At equal times nothing is proved, so
invocations come first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkers.load import OK, History
from checkers.promises import fatal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def cases(history: History, settled: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as fn

    errors = {int(worker): error for worker, error in history.meta.clock_error_ns.items() if error}
    error = (
        "0L" if not errors else f"CASE worker {' '.join(f'WHEN {w} THEN {e}L' for w, e in errors.items())} ELSE 0L END"
    )
    acknowledged = settled.where(
        f"sent AND key >= 0 AND fate = {OK} AND offset IS NOT NULL AND complete_ns IS NOT NULL"
    )
    moments = acknowledged.select(
        "key", "value", "offset", "process", "op", "mop", "pos", "producer",
        fn.expr(
            f"explode(array(named_struct('at', invoke_ns - {error}, 'ack', false), "
            f"named_struct('at', complete_ns + {error}, 'ack', true))) AS moment"
        ),
    ).select("*", "moment.*")  # fmt: skip
    time_line = Window.partitionBy("key").orderBy("at", "ack").rowsBetween(Window.unboundedPreceding, -1)
    late = moments.withColumn("highest", fn.max(fn.expr("CASE WHEN ack THEN offset END")).over(time_line))
    promise = fatal("realtime-order", void=history.void)
    return (
        late.where(f"NOT ack AND highest > offset AND NOT {history.compacted}")
        .withColumn("unclean", fn.expr(history.unclean))
        .withColumn("safe", fn.expr(history.promises.safe))
        .selectExpr(
            "'realtime-order' AS anomaly",
            f"COALESCE({promise}, false) AS fatal",
            "key",
            "value",
            "offset",
            "process",
            "op",
            "mop",
            "pos",
            "CAST(NULL AS long) AS other_op",
            "highest AS other_offset",
            "CAST(NULL AS long) AS other_value",
        )
    )
