"""Avro types and values are those of Spark's own reader.

``TIDELOG_TEST_SPARK_AVRO``, a jar of spark-avro for the installed Spark, asks that reader again.
"""

import json
import os
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from tidelog.spark import from_tidelog

from . import avro_golden

GOLDEN = {name: [kind, shown] for name, (_, _, kind, shown) in avro_golden.FIELDS.items()}


def test_avro_types_and_values_are_those_of_sparks_reader(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", avro_golden.TIME_ZONE)
    try:
        frame = spark.createDataFrame([(bytearray(avro_golden.value()),)], "value binary")
        made = from_tidelog("value", "avro", schema=json.dumps(avro_golden.schema()))
        assert avro_golden.shown(frame.select(made.alias("r"))) == GOLDEN
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


@pytest.mark.skipif("TIDELOG_TEST_SPARK_AVRO" not in os.environ, reason="needs a jar of spark-avro")
def test_sparks_reader_still_gives_the_golden_values() -> None:
    command = [sys.executable, avro_golden.__file__, os.environ["TIDELOG_TEST_SPARK_AVRO"]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == GOLDEN
