"""The one local Spark session of this test process: starting a JVM takes seconds."""

from __future__ import annotations

import importlib.util
import os
import shutil
from functools import cache
from typing import Any


def absent() -> str | None:
    """Why there is no Spark here; None if there is."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed"
    found = shutil.which("java") or os.environ.get("JAVA_HOME")
    return None if found else "there is no Java"


@cache
def session() -> Any:
    """A local session on both cores, bound to this machine; it ends with the process."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    made = (
        SparkSession.builder.master("local[2]")
        .appName("dpsql-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", "/tmp/dpsql-spark-warehouse")
        .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    return made
