"""Lets Spark find the format ``tidelog`` by itself.

Spark looks through all modules whose names begin with ``pyspark_`` for a ``DefaultSource``; so
``spark.read.format("tidelog")`` works in every session whose Python has Tidelog installed.
"""

from tidelog.spark.datasource import TidelogDataSource as DefaultSource

__all__ = ["DefaultSource"]
