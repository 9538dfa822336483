"""Spark's own Kafka connector as the peer: fetched from Maven once, loaded into the session beside ours."""

import shutil
import subprocess
from pathlib import Path

from bench.kafka import DEPENDENCY, POM
from bench.process import BenchError

VERSION = "4.2.0"  # the newest that is published

# Named one by one, without what they ask for: Spark has the rest, and its parent project names a mirror that
# not everyone can reach. The token provider serves delegation tokens only, and any version does.
_ARTIFACTS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def jars(cache: Path) -> list[Path]:
    """The connector's jars; fetched the first time. :class:`BenchError` says why there are none."""
    directory = cache / f"spark-connector-{VERSION}"
    if not (directory / "complete").exists():
        _fetch(directory)
    return sorted(directory.glob("*.jar"))


def _fetch(directory: Path) -> None:
    if shutil.which("mvn") is None:
        raise BenchError("the program mvn, which fetches it, is not installed here")
    directory.mkdir(parents=True, exist_ok=True)
    dependencies = "".join(
        DEPENDENCY.format(*one).replace("</dependency>", f"{_ALONE}</dependency>") for one in _ARTIFACTS
    )
    pom = directory / "pom.xml"
    pom.write_text(POM.format(dependencies=dependencies))
    command = ["mvn", "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
    done = subprocess.run(
        [*command, f"-DoutputDirectory={directory}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchError(f"Maven could not fetch it: {(done.stdout + done.stderr).strip()[-400:]}")
    (directory / "complete").touch()
