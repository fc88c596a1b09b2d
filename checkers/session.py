"""The one Spark of a command.

The checks are jobs on Spark's core (:mod:`checkers.pipeline`): they need no session of Spark SQL, whose start costs as
much as all the rest.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from checkers.java import find_java

if TYPE_CHECKING:
    from pyspark import SparkContext

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # pieces are packed already
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
}
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def start(master: str | None = None) -> SparkContext:
    """Start Spark on ``master``, by default on all cores of this machine."""
    java = find_java()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = master or "local[*]"
    memory = os.environ.get("TIDEMARK_SPARK_MEMORY", "1g")
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster(master).setAppName("tidemark").setAll(list(_SETTINGS.items()))
    if master.startswith("local"):
        conf.setAll([*_LOCAL.items(), ("spark.driver.memory", memory)])
        # the machine moves whole columns and touches no row: compiling thoroughly would cost more than it brings
        conf.set("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
    return SparkContext(conf=conf)
