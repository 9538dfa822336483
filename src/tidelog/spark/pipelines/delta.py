"""Delta tables to which a micro-batch is added once, and whose small files are merged; or why there can be
none, in one sentence.

Delta is a separate jar, built for one version of Spark. This module knows what a session needs to use it
(:data:`SETTINGS`) and the symptoms if it is missing or does not fit; everything else about tables is Delta's.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.tables.filesystem import files_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
SETTINGS = {
    "spark.sql.extensions": EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

# The JVM's errors for a jar that was built for another version of what it calls.
_MISFITS = (
    "NoSuchMethodError",
    "NoSuchFieldError",
    "NoClassDefFoundError",
    "IncompatibleClassChangeError",
    "AbstractMethodError",
    "VerifyError",
)


class DeltaUnusable(OptionError):
    """Delta tables were requested and are not available; the message says what to do."""


class DeltaTable:
    """Picklable. ``application`` is the name under which Delta counts its batches."""

    def __init__(self, path: str, application: str) -> None:
        self.path = path
        self._application = application

    def prepare(self, spark: "SparkSession") -> None:
        """Raise :class:`DeltaUnusable` now rather than in the middle."""
        version = _spark_version(spark)
        try:
            _ = spark.read.format("delta").load(self.path).schema
        except (PySparkException, Py4JError) as failure:
            if "DATA_SOURCE_NOT_FOUND" in str(failure):
                raise DeltaUnusable(
                    f"Delta tables need Delta's jar for Spark {version}, which this session lacks: add "
                    f"--conf spark.jars.packages=io.delta:delta-spark_{version}_2.13:RELEASE, "
                    "or write Parquet if there is no release for this Spark yet."
                ) from None
        if EXTENSION not in (spark.conf.get("spark.sql.extensions", "") or ""):
            needed = " ".join(f"--conf {key}={value}" for key, value in SETTINGS.items())
            raise DeltaUnusable(
                f"The Spark session does not know Delta: start it, or its server, with {needed}."
            )

    def add(self, rows: "DataFrame", batch_id: int, partition_by: Iterable[str]) -> None:
        """Add the rows of a micro-batch, unless they are there."""
        (
            rows.write.format("delta")
            .mode("append")
            .partitionBy(*partition_by)
            .option("mergeSchema", "true")
            .option("txnAppId", self._application)
            .option("txnVersion", batch_id)
            .save(self.path)
        )

    def row_total(self, spark: "SparkSession") -> int:
        """From Delta's own log: no file is opened."""
        return self._load(spark).count() if self._exists(spark) else 0

    def file_total(self, spark: "SparkSession") -> int:
        return len(self._load(spark).inputFiles()) if self._exists(spark) else 0

    def merge(self, spark: "SparkSession", *, target_bytes: int) -> int:
        """Merge files smaller than half of ``target_bytes``; returns how many are gone."""
        if not self._exists(spark):
            return 0
        spark.conf.set("spark.databricks.delta.optimize.minFileSize", target_bytes // 2)
        spark.conf.set("spark.databricks.delta.optimize.maxFileSize", target_bytes)
        done = spark.sql(f"OPTIMIZE delta.`{self.path}`").select("metrics").collect()[0]["metrics"]
        return int(done["numFilesRemoved"] - done["numFilesAdded"])

    def _load(self, spark: "SparkSession") -> "DataFrame":
        return spark.read.format("delta").load(self.path)

    def _exists(self, spark: "SparkSession") -> bool:
        return files_at(spark, self.path).exists("_delta_log")


@contextmanager
def misfits_explained(spark: "SparkSession") -> Iterator[None]:
    """Delta's jar and Spark have different versions: that shows only once Delta is used."""
    try:
        yield
    except (PySparkException, Py4JError) as failure:
        text = str(failure)
        found = next((word for word in _MISFITS if word in text), None)
        if found is None or "delta" not in text.lower():
            raise
        version = _spark_version(spark)
        raise DeltaUnusable(
            f"Delta's jar does not fit Spark {version} ({found}): the one for it is called "
            f"delta-spark_{version}_2.13; use a Spark version for which there is one, or write Parquet."
        ) from failure


def _spark_version(spark: "SparkSession") -> str:
    return ".".join(spark.version.split(".")[:2])
