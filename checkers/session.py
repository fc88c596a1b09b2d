"""The one Spark session of a command, tuned so that a small history is judged in about the time Spark takes to start.

Small data wants few shuffle partitions and no UI; large data wants the same plans to spill. Adaptive
execution merges small partitions, so the number below is the ceiling for parallelism, not a cost.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from checkers.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "32m",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.log.level": "ERROR",
    "spark.cleaner.referenceTracking": "true",
}


def start(master: str | None = None) -> SparkSession:
    """Start Spark on ``master``, by default on all cores of this machine."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    scratch = Path(tempfile.gettempdir()) / "tidemark-spark"
    builder = SparkSession.builder.master(master or "local[*]").appName("tidemark")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    if master is None or master.startswith("local"):
        builder = (
            builder.config("spark.driver.memory", os.environ.get("TIDEMARK_SPARK_MEMORY", "3g"))
            .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
            .config("spark.driver.extraJavaOptions", "-XX:+UseParallelGC -XX:TieredStopAtLevel=4 -Xshare:auto")
        )
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
