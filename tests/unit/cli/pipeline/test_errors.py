"""Pages of traces become one sentence that says what to do."""

import errno

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.pipeline.errors import explained, reason
from tidelog.cli.pipeline.topics import missing_topics

IN_A_TASK = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/x/site-packages/pyspark/worker.py", line 1, in main
    process()
tidelog.client.errors.UnknownTopic: There is no topic orders-again in the cluster at 127.0.0.1:9092.
 at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
"""
IN_A_LINE = (
    "[PYTHON_DATA_SOURCE_ERROR] Failed to plan reading of the data source tidelog: "
    "tidelog.client.errors.UnknownTopic: There is no topic orders-again in the cluster. SQLSTATE: 38000"
)
AFTER_A_CONDITION = (
    "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_DATA_SOURCE_ERROR] Failed to read: "
    "tidelog.spark.reading.loss.DataLoss: Offsets 3 to 9 are gone; records are lost: set "
    "failOnDataLoss=false to go on without them."
)
FULL = """An error occurred while calling o123.parquet.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows. SQLSTATE: 58030
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""
DENIED = """An error occurred while calling o77.parquet.
: java.io.FileNotFoundException: /data/orders/records/part-0.parquet (Permission denied)
\tat java.base/java.io.FileOutputStream.open0(Native Method)
"""
NO_DIRECTORY = """An error occurred while calling o77.parquet.
: java.io.IOException: Mkdirs failed to create file:/root/x/_temporary/0 (exists=false, cwd=file:/work)
\tat org.apache.hadoop.fs.ChecksumFileSystem.create(ChecksumFileSystem.java:1)
"""
DAMAGED = """An error occurred while calling o9.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///data/a/part-0.parquet.  SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:920)
Caused by: java.io.IOException: Required field 'encoding' was not present! Struct: DataPageHeader(num_values:29)
"""  # noqa: E501
NO_PATH = "[PATH_NOT_FOUND] Path does not exist: file:/data/nothing/records. SQLSTATE: 42K03"
NO_COLUMN = """[UNRESOLVED_COLUMN] A column `dat` cannot be resolved. Did you mean `date`? SQLSTATE: 42703; x
'Filter ('dat > 1)
+- Relation [key#1,value#2] parquet
"""
MEMORY = """An error occurred while calling o1.save.
: org.apache.spark.SparkException: Job aborted: java.lang.OutOfMemoryError: Java heap space
"""
INNERMOST = """An error occurred while calling o9.load.
: org.apache.spark.SparkException: Job aborted.
\tat x.Y.z(Y.scala:1)
Caused by: java.lang.IllegalArgumentException: requirement failed: the block is odd
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (IN_A_TASK, "There is no topic orders-again in the cluster at 127.0.0.1:9092."),
        (
            DAMAGED,
            "The file /data/a/part-0.parquet is damaged, or cannot be read: restore it from a copy, or move "
            "it away to let `tidelog pipeline verify` say which records are missing.",
        ),
        (IN_A_LINE, "There is no topic orders-again in the cluster."),
        (
            AFTER_A_CONDITION,
            "Offsets 3 to 9 are gone; records are lost: set failOnDataLoss=false to go on without them.",
        ),
        (FULL, "The disk is full; free some space and run the command again."),
        (DENIED, "This user may not read or write at /data/orders/records/part-0.parquet."),
        (NO_DIRECTORY, "This user may not read or write at /root/x/_temporary/0."),
        (NO_PATH, "There is nothing at /data/nothing/records."),
        (NO_COLUMN, "Spark failed: A column `dat` cannot be resolved. Did you mean `date`?"),
        (MEMORY, "Spark ran out of memory; give it more with --conf spark.driver.memory=4g."),
        (
            "Insufficient driver memory: System memory 41943040 must be at least 471859200.",
            "Spark needs more memory to start: --conf spark.driver.memory=1g.",
        ),
        (
            "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\nat x",
            "Spark's session ended while it began, as when no master answers under this address: check "
            "--master.",
        ),
        (
            "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.",
            "Java did not start with these settings of Spark: check --conf; the lines above name the one.",
        ),
        (INNERMOST, "Spark failed: requirement failed: the block is odd."),
        ("", "Spark failed: no reason was given."),
    ],
)
def test_the_reason_is_one_sentence(text: str, sentence: str) -> None:
    assert reason(text) == sentence


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOSPC, "The disk is full at /data/x"),
        (errno.EACCES, "This user may not read or write at /data/x"),
        (errno.ENOENT, "There is nothing at /data/x"),
        (errno.ENOTDIR, "Not a directory at /data/x"),
    ],
)
def test_files_that_cannot_be_used(code: int, said: str) -> None:
    import os

    with pytest.raises(CommandFailed) as failed, explained():
        raise OSError(code, os.strerror(code), "/data/x")
    assert str(failed.value).startswith(said) and "\n" not in str(failed.value)


def test_what_is_missing_on_the_machine_is_said_as_it_is() -> None:
    from tidelog.spark import PackageMissing

    with pytest.raises(CommandFailed, match=r"^Install it\.$"), explained():
        raise PackageMissing("Install it")


def test_a_closed_pipe_is_no_failure() -> None:
    with pytest.raises(BrokenPipeError), explained():
        raise BrokenPipeError


def test_missing_topics_are_named() -> None:
    assert missing_topics(["nosuch"]).startswith("Topic 'nosuch' does not exist; `tidelog topic list`")
    assert missing_topics(["a", "b"]).startswith("Topics 'a', 'b' do not exist;")
