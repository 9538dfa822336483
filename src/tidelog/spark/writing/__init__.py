"""Writing DataFrames to topics: Arrow in, record batches out.

================== =====================================================================================
settings           the options
columns            Arrow columns as flat arrays
places, loops      arguments of the compiled loops, and the loops
kernel             the loops behind plain calls
encoder            open batches in bounded memory, finished with checksum and sequence
messages           the requests, as bytes; also transaction_messages, ledger_messages
versions           which brokers are new enough
sender             batches to leaders, in order, with retries
task               the loop of one task
coordinator        requests to the coordinators of transactions and groups
transactions       names and requests of transactions
task_transaction   one task's rows in a transaction that is left open
sweeping           the end of all open transactions under a prefix
ledger             which run of a query may write, and the last micro-batch that was decided
sink               exactly once for streams: taking over, deciding, ending a run
job                exactly once for batch jobs
detached           cleaning up while the driver exits
writers            Spark's entry points
================== =====================================================================================
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from tidelog.spark.options import OptionError
from tidelog.spark.writing.columns import check_columns
from tidelog.spark.writing.settings import WriterSettings, writer_settings

if TYPE_CHECKING:
    from tidelog.spark.writing.writers import BatchWriter, StreamWriter

__all__ = ["WriterSettings", "batch_writer", "stream_writer", "writer_settings"]


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> "BatchWriter":
    """The writer of ``df.write``."""
    from tidelog.spark.writing.writers import BatchWriter

    if overwrite:
        raise OptionError("A topic cannot be overwritten, only appended to; allowed: mode('append').")
    return BatchWriter(_checked(options, schema, streaming=False))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> "StreamWriter":
    """The writer of ``df.writeStream``. ``overwrite`` is Spark's name for the output mode ``complete``."""
    from tidelog.spark.writing.writers import StreamWriter

    return StreamWriter(_checked(options, schema, streaming=True))


def _checked(options: Mapping[str, str], schema: StructType, *, streaming: bool) -> WriterSettings:
    settings = writer_settings(options, streaming=streaming)
    check_columns(schema, settings.topic)
    return settings
