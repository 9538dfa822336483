"""The Spark session of a pipeline: embedded, on a cluster, or behind Spark Connect; the same code on all
three.

Owns how a session is created and its settings for Tidelog. A pipeline accepts any session: this is for the
command line and for callers without one.
"""

import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.spark import require_java
from tidelog.spark.packages import require_packages
from tidelog.spark.workers import choose_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(max(os.cpu_count() or 2, 2)),
}


def open_session(
    name: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> "SparkSession":
    """A session on ``master`` (by default this machine) or on the Spark Connect server at ``remote``.

    ``settings`` are Spark's own and override the defaults.
    """
    require_packages()
    from pyspark.sql import SparkSession

    # About functions of Spark that pass pandas' columns, which pipelines do not use.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    if remote is not None:
        builder = SparkSession.builder.remote(remote)
    else:
        require_java()
        choose_python(master)
        builder = SparkSession.builder.master(master or "local[*]").appName(name)
        for key, value in _QUIET.items():
            builder = builder.config(key, value)
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    if remote is None:
        session.sparkContext.setLogLevel("ERROR")
    return session
