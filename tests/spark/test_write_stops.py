"""Exactly-once streams of Spark that stop or fail in the middle of a batch: readers are not held back.

``read_committed`` readers wait for open transactions, for up to 15 minutes. A task that is stopped is killed
and can end nothing; the driver has to.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from .arrived import consume, held_back
from .conftest import CreateTopic
from .on_request import on_request
from .processes import wait_until

ROWS = 12_000  # more than Spark hands over at once, so that the first are written before the last
HANGS, FAILS = "hangs", "fails"
SLEEPS = "reflect('java.lang.Thread', 'sleep', {ms}L)"
VALUE = f"""case value when '{HANGS}' then {SLEEPS.format(ms=600_000)}
                       when '{FAILS}' then concat({SLEEPS.format(ms=3_000)}, raise_error('broken'))
                       else value end value"""


def input_file(directory: Path, name: str, last: str) -> None:
    directory.mkdir(exist_ok=True)
    lines = [f"{name}-{number}" for number in range(ROWS)] + [last]
    (directory / name).write_text("\n".join(lines))


def start(spark: SparkSession, source: Path, bootstrap: str, topic: str, checkpoint: str) -> StreamingQuery:
    return (
        spark.readStream.text(str(source))
        .selectExpr(VALUE)
        .writeStream.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.batch.size", 1024)
        .option("topic", topic)
        .option("checkpointLocation", checkpoint)
        .start()
    )


def is_writing(bootstrap: str, topic: str) -> bool:
    return bool(consume(bootstrap, topic, committed=False))


def test_a_query_that_is_stopped_in_a_batch_does_not_hold_back_readers(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path, checkpoint: str
) -> None:
    topic, source = create_topic(2), tmp_path / "in"
    input_file(source, "a", HANGS)
    query = start(spark, source, bootstrap, topic, checkpoint)
    wait_until(lambda: is_writing(bootstrap, topic) or not query.isActive)
    query.stop()
    assert held_back(bootstrap, topic) == []
    assert consume(bootstrap, topic) == []


def test_a_failing_task_and_those_beside_it_do_not_hold_back_readers(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path, checkpoint: str
) -> None:
    topic, source = create_topic(2), tmp_path / "in"
    input_file(source, "a", HANGS)
    input_file(source, "b", FAILS)
    query = start(spark, source, bootstrap, topic, checkpoint)
    with pytest.raises(StreamingQueryException, match="broken"):
        query.awaitTermination()
    assert held_back(bootstrap, topic) == []
    assert consume(bootstrap, topic) == []


@on_request
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("ends", ["exit", "term", "kill"])
def test_a_driver_that_ends_in_a_batch(
    request: pytest.FixtureRequest, bootstrap: str, create_topic: CreateTopic, tmp_path: Path,
    checkpoint: str, ends: str,
) -> None:  # fmt: skip
    """At its exit it cleans up. Killed with -9 it cannot; the next start does."""
    topic, source = create_topic(2), tmp_path / "in"
    input_file(source, "a", "last")
    driver = Driver(source, bootstrap, topic, checkpoint)
    try:
        driver.wait_for(lambda: len(consume(bootstrap, topic)) > ROWS)
        input_file(source, "b", HANGS)
        driver.wait_for(lambda: len(consume(bootstrap, topic, committed=False)) > ROWS + 1)
        driver.end(ends)
    finally:
        driver.end("kill")
    if ends == "kill":
        assert held_back(bootstrap, topic, within_s=0) != []
        input_file(source, "b", "last")
        query = start(request.getfixturevalue("spark"), source, bootstrap, topic, checkpoint)
        query.processAllAvailable()
        query.stop()
        assert len(consume(bootstrap, topic)) == 2 * (ROWS + 1)
    assert held_back(bootstrap, topic) == []


class Driver:
    """This module as a process of its own, with its JVM and its Python workers."""

    def __init__(self, source: Path, bootstrap: str, topic: str, checkpoint: str) -> None:
        words = [sys.executable, "-m", "spark.test_write_stops", str(source), bootstrap, topic, checkpoint]
        path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        self._enough = enough(source)
        self._process = subprocess.Popen(words, env=os.environ | {"PYTHONPATH": path}, start_new_session=True)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        wait_until(lambda: self._process.poll() is not None or condition())
        assert self._process.poll() is None

    def end(self, how: str) -> None:
        if self._process.poll() is not None:
            return
        if how == "exit":
            self._enough.touch()
        else:
            os.killpg(self._process.pid, signal.SIGTERM if how == "term" else signal.SIGKILL)
        self._process.wait(300)


def enough(source: Path) -> Path:
    """A file that makes the driver exit."""
    return source.parent / "enough"


def main() -> None:
    source, bootstrap, topic, checkpoint = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.memory", "600m").getOrCreate()
    query = start(session, Path(source), bootstrap, topic, checkpoint)
    wait_until(enough(Path(source)).exists)
    assert query.isActive


if __name__ == "__main__":
    main()
