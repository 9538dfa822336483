"""What a newcomer meets: workers with another Python, missing packages, progress without metrics."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import tidelog
from tidelog.spark import packages, workers
from tidelog.spark.packages import PackageMissing, require_packages
from tidelog.spark.progress import BacklogListener, backlogs, estimated_bytes
from tidelog.spark.workers import WrongPython, check_python, choose_python

from .golden import produce

CreateTopic = Callable[..., str]
JOB_S = 380

JOB = """
import sys
from pyspark.sql import SparkSession
from tidelog.spark import register

settings = {"spark.ui.enabled": "false", "spark.driver.memory": "768m", "spark.log.level": "FATAL"}
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
register(spark)
source = spark.read.format("tidelog").option("kafka.bootstrap.servers", sys.argv[1])
print("rows:", source.option("subscribe", sys.argv[2]).load().count())
try:
    source.option("subscribe", "nowhere").load().count()
except Exception as error:
    print("error:", " ".join(str(error).split()))
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """The Python of an environment that has what this one has, and is not activated."""
    venv.create(tmp_path / "environment", symlinks=True)
    python = tmp_path / "environment" / "bin" / "python"
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    source = Path(tidelog.__file__).parents[1]
    packages_here = sysconfig.get_path("purelib")
    (Path(site) / "packages.pth").write_text(f"{source}\n{packages_here}\n")
    return python


def test_a_job_without_an_activated_environment(
    spark: Any, bootstrap: str, create_topic: CreateTopic, environment: Path, tmp_path: Path
) -> None:
    """Spark starts python3 from the PATH otherwise, which has no Tidelog."""
    topic = create_topic(1)
    produce(bootstrap, topic, [b"x"] * 3)
    others = tmp_path / "others"
    others.mkdir()
    (others / "python3").symlink_to(Path(sys.executable).resolve())
    job = tmp_path / "job.py"
    job.write_text(JOB)
    kept = {name: value for name, value in os.environ.items() if name in ("HOME", "JAVA_HOME", "PATH")}
    kept["PATH"] = f"{others}:{kept['PATH']}"
    done = subprocess.run(
        [str(environment), str(job), bootstrap, topic],
        env=kept, capture_output=True, text=True, timeout=JOB_S, check=False,
    )  # fmt: skip
    assert "rows: 3" in done.stdout, done.stderr[-3000:]
    told = next(line for line in done.stdout.splitlines() if line.startswith("error:"))
    assert "There is no topic nowhere in the cluster at" in told
    assert "Traceback" not in told and len(told) < 400


def other_python(directory: Path, said: str) -> str:
    """A Python that answers what it is asked about itself."""
    python = directory / "python3"
    python.write_text(f"#!/bin/sh\necho '{said}'\n")
    python.chmod(0o755)
    return str(python)


def test_another_python_that_cannot_run_tasks_is_named(tmp_path: Path) -> None:
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    check_python(sys.executable, is_chosen=True)
    check_python(other_python(tmp_path, own), is_chosen=True)
    check_python(other_python(tmp_path, f"{own} pyspark"), is_chosen=True)  # Spark brings it
    for said, message in (
        (f"{own} pyarrow tidelog", "where pyarrow and tidelog cannot be imported: set PYSPARK_PYTHON="),
        ("3.7", f"which is Python 3.7, and this one is {own}: set PYSPARK_PYTHON="),
    ):
        with pytest.raises(WrongPython, match=message):
            check_python(other_python(tmp_path, said), is_chosen=True)
    with pytest.raises(WrongPython, match=r"PYSPARK_PYTHON is /nowhere/python, which is not there: set"):
        check_python("/nowhere/python", is_chosen=True)


def test_this_python_is_chosen_only_where_the_executors_are_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(workers.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    other_python(tmp_path, "3.7")
    with pytest.raises(WrongPython, match="PYSPARK_PYTHON is not set, so Spark starts python3, which is Py"):
        choose_python("spark://elsewhere:7077")
    assert workers.VARIABLE not in os.environ
    choose_python("local[2]")
    assert os.environ[workers.VARIABLE] == sys.executable


def test_missing_and_old_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    require_packages()
    import pyarrow

    monkeypatch.setattr(pyarrow, "__version__", "9.0.0")
    with pytest.raises(PackageMissing, match=r"PyArrow.*9\.0\.0.* Upgrade it: pip install"):
        require_packages()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "numba" else 1)
    with pytest.raises(PackageMissing, match="needs numba, not installed here: pip install 'tidelog"):
        require_packages()


def test_what_is_needed_comes_with_the_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    brought = {re.split("[<>=]", one)[0] for one in project["project"]["optional-dependencies"]["spark"]}
    assert {*packages._NEEDED} <= brought and {*workers._NEEDED} - {"tidelog"} <= brought


def progress(read: Any, latest: Any) -> dict[str, Any]:
    files = {"endOffset": json.dumps({"logOffset": 3}), "latestOffset": None}
    return {"sources": [{"endOffset": json.dumps(read), "latestOffset": json.dumps(latest)}, files]}


def test_the_backlog_of_a_stream_from_its_progress() -> None:
    read = {"a": {"0": 10, "1": 5}, "@topicIds": {"a": "x"}}
    (backlog,) = backlogs(progress(read, {"a": {"0": 10, "1": 25, "2": 4}}))
    assert backlog.metrics == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "20",
        "avgOffsetsBehindLatest": "8.0",
    }
    assert backlogs({"sources": []}) == []


def test_the_backlog_in_bytes_is_estimated_from_a_sample(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(2)
    produce(bootstrap, topic, [b"x" * 1000] * 300, partition=1)
    (backlog,) = backlogs(progress({topic: {"0": 0, "1": 100}}, {topic: {"0": 0, "1": 300}}))
    estimate = estimated_bytes(backlog, {"kafka.bootstrap.servers": bootstrap})
    assert 200 * 900 < estimate < 200 * 2000


def test_a_listener_hears_of_the_backlog(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    from threading import Event

    topic = create_topic(1)
    produce(bootstrap, topic, [b"x"] * 30)
    heard: list[tuple[str, dict[str, str]]] = []
    came = Event()

    def tell(name: str, backlog: Any) -> None:
        heard.append((name, backlog.metrics))
        came.set()

    listener = BacklogListener(tell)
    spark.streams.addListener(listener)
    try:
        source = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
        source = source.option("subscribe", topic).option("startingOffsets", "earliest")
        writer = source.option("maxOffsetsPerTrigger", 10).load().writeStream.format("noop")
        writer = writer.queryName("watched").option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert writer.trigger(availableNow=True).start().awaitTermination(200)
        assert came.wait(100)
    finally:
        spark.streams.removeListener(listener)
    assert heard[0][0] == "watched"
    assert heard[0][1]["maxOffsetsBehindLatest"] == "20"
