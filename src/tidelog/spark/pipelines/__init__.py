"""Finished pipelines: plain functions over a Spark session, to be called, composed, or run with ``tidelog
pipeline``.

================= ==========================================================================
:mod:`.archive`   topics to tables
:mod:`.restore`   tables to topics
:mod:`.transform` SQL from topics to topics or tables
:mod:`.audit`     all replicas of a topic compared
:mod:`.indicators` records of an experiment to performance, consistency and availability
================= ==========================================================================

Each takes what it has to do as one value, tells how far it is (``tell``) and stops on request (``stop``). All
of them work against any Kafka-compatible cluster."""

from tidelog.spark.pipelines.archive import Archive, ArchiveReport, archive, read_archive
from tidelog.spark.pipelines.decoding import Decoding
from tidelog.spark.pipelines.restore import Restore, RestoreReport, restore
from tidelog.spark.pipelines.running import Progress
from tidelog.spark.pipelines.session import open_session
from tidelog.spark.pipelines.source import Topics

__all__ = [
    "Archive",
    "ArchiveReport",
    "Decoding",
    "Progress",
    "Restore",
    "RestoreReport",
    "Topics",
    "archive",
    "open_session",
    "read_archive",
    "restore",
]
