"""Ready-made pipelines: plain functions over a Spark session, to be called, composed, or run with ``tidelog
pipeline``.

============== ===========================================================================
archive        topics to tables
compact        small files of a table merged
expire         old snapshots of a table removed
restore        tables to topics
transform      SQL from topics to topics or tables
audit          all replicas of a topic compared
verify         an archive compared with its topics
indicators     records of an experiment to performance, consistency and availability
============== ===========================================================================

Each takes its job as one value, reports progress (``tell``) and stops on request (``stop``). All of them work
with any Kafka-compatible cluster.
"""

from tidelog.spark.pipelines.archive import Archive, ArchiveReport, archive, read_archive
from tidelog.spark.pipelines.audit import Audit, AuditReport, audit
from tidelog.spark.pipelines.decoding import Decoding, Encoding
from tidelog.spark.pipelines.indicators import Indicators, IndicatorsReport, indicators, write_report
from tidelog.spark.pipelines.restore import Restore, RestoreReport, restore
from tidelog.spark.pipelines.restore_targets import NewTopics
from tidelog.spark.pipelines.running import Progress
from tidelog.spark.pipelines.session import open_session
from tidelog.spark.pipelines.source import Topics
from tidelog.spark.pipelines.transform import Output, Source, Transform, TransformReport, transform
from tidelog.spark.pipelines.transform_file import read_transform
from tidelog.spark.pipelines.upkeep import Compaction, Expiry, UpkeepReport, compact, expire
from tidelog.spark.pipelines.verify import Verify, VerifyReport, verify
from tidelog.spark.schemas.registry import RegistrySettings

__all__ = [
    "Archive",
    "ArchiveReport",
    "Audit",
    "AuditReport",
    "Compaction",
    "Decoding",
    "Encoding",
    "Expiry",
    "Indicators",
    "IndicatorsReport",
    "NewTopics",
    "Output",
    "Progress",
    "RegistrySettings",
    "Restore",
    "RestoreReport",
    "Source",
    "Topics",
    "Transform",
    "TransformReport",
    "UpkeepReport",
    "Verify",
    "VerifyReport",
    "archive",
    "audit",
    "compact",
    "expire",
    "indicators",
    "open_session",
    "read_archive",
    "read_transform",
    "restore",
    "transform",
    "verify",
    "write_report",
]
