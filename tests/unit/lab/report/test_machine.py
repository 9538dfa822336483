"""What is said about this machine is there at all, and never fails."""

from pathlib import Path

from tidelog.lab.report.machine import machine, versions


def test_this_machine(tmp_path: Path) -> None:
    found = machine(tmp_path / "not" / "there" / "yet")
    assert found.cores >= 1 and found.memory_gb > 0 and found.system and found.cpu
    assert "GB free" in found.disk


def test_versions() -> None:
    assert {"python", "tidelog", "confluent-kafka", "librdkafka"} <= versions().keys()
