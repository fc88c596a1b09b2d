"""What every check takes for granted, verified: where it does not hold, the verdict is UNKNOWN.

Values are unique (per key from the checks' own tallies, across keys here), operations are numbered
densely in the order of invocation, times do not run backwards, and a process has one operation in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkers.load import History

if TYPE_CHECKING:
    from pyspark.sql import Row


def broken_assumptions(history: History, tallies: dict[str, int]) -> list[str]:
    reasons = []
    twice = tallies.get("#value-sent-twice", 0)
    if twice:
        reasons.append(f"{twice} values were sent more than once to one key: values must be unique")
    else:
        again = _sent_to_two_keys(history)
        if again is not None:
            reasons.append(f"value {again.value} was sent {again.n} times: values must be unique within a run")
    state = _operations(history)
    if state.n and (state.lowest != 0 or state.highest != state.n - 1 or state.numbers != state.n):
        reasons.append(f"operations are not numbered densely from 0: {state.n} rows, {state.lowest} to {state.highest}")
    if state.backwards:
        reasons.append(f"{state.backwards} operations complete before they were invoked")
    if state.overlapping:
        reasons.append(f"{state.overlapping} operations began while another of the same process was open")
    return reasons


def _sent_to_two_keys(history: History) -> Row | None:
    from pyspark.sql import functions as fn

    sends = history.mops.where("kind = 'send' AND value IS NOT NULL").select("value")
    return sends.groupBy("value").agg(fn.count("*").alias("n")).where("n > 1").first()


def _operations(history: History) -> Row:
    from pyspark.sql import Window
    from pyspark.sql import functions as fn

    by_process = Window.partitionBy("process").orderBy("op")
    walked = (
        history.ops.select("op", "process", "invoke_ns", "complete_ns", "f")
        .withColumn("previous_ns", fn.lag("complete_ns").over(by_process))
        .withColumn("previous_op", fn.lag("op").over(by_process))
    )
    row = walked.agg(
        fn.count("*").alias("n"),
        fn.min("op").alias("lowest"),
        fn.max("op").alias("highest"),
        fn.lit(None).cast("long").alias("unused"),
        fn.sum(fn.expr("CASE WHEN previous_op = op THEN 0 ELSE 1 END")).alias("numbers"),
        fn.count_if(fn.expr("complete_ns < invoke_ns")).alias("backwards"),
        fn.count_if(fn.expr("previous_op IS NOT NULL AND (previous_ns IS NULL OR previous_ns > invoke_ns)")).alias(
            "overlapping"
        ),
    ).first()
    assert row is not None, "an aggregate without groups has one row"
    return row
