"""The one Spark of a command.

The checks are jobs on Spark's core (:mod:`checkers.pipeline`): they need no session of Spark SQL, whose start costs as much as all the
rest. On this machine Spark runs in a virtual machine that is started for speed (:mod:`checkers.jvm`); for a cluster
PySpark starts it in its own way, so that whatever is configured for that cluster holds.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from checkers import jvm
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
_CONFIGURED = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT")
"""Who sets one of these has a Spark of their own, which is then started in its own way."""


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
    if not master.startswith("local"):
        conf.set("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={jvm.LOGGING.as_uri()}")
        return SparkContext(conf=conf)
    conf.setAll([*_LOCAL.items(), ("spark.driver.memory", memory)])
    # one virtual machine serves a process for good; PySpark keeps the gateway to it
    if SparkContext._gateway is None and not any(name in os.environ for name in _CONFIGURED):
        return SparkContext(conf=conf, gateway=jvm.start_gateway(java, memory))
    return SparkContext(conf=conf)
