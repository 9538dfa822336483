"""Which folders of jars are taken for Apache Kafka, and what its brokers are told."""

from pathlib import Path

import pytest

from tidelog.lab.experiment.model import ClusterSpec
from tidelog.lab.targets.base import TargetError
from tidelog.lab.targets.kafka import KafkaTarget, find_jars


def test_a_folder_of_jars_and_the_download_around_it(tmp_path: Path) -> None:
    libs = tmp_path / "kafka_2.13-4.1.0" / "libs"
    libs.mkdir(parents=True)
    (libs / "kafka_2.13-4.1.0.jar").touch()
    assert find_jars(libs) == (libs.resolve(), "4.1.0")
    assert find_jars(libs.parent) == (libs.resolve(), "4.1.0")


def test_no_jars_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"needs --jars DIR"):
        find_jars(None)
    with pytest.raises(TargetError, match="is no folder"):
        find_jars(tmp_path / "none")
    with pytest.raises(TargetError, match="There are no jars in"):
        find_jars(tmp_path)


def test_wrong_jars_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "kafka-clients-4.1.0.jar").touch()
    with pytest.raises(
        TargetError, match=r"not those of an Apache Kafka broker: kafka_2.13-VERSION.jar is missing"
    ):
        find_jars(tmp_path)


def test_no_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kafka_2.13-4.1.0.jar").touch()
    monkeypatch.setattr("tidelog.lab.targets.kafka.shutil.which", lambda name: None)
    with pytest.raises(TargetError, match="needs Java 17"):
        KafkaTarget(tmp_path)


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KafkaTarget:
    (tmp_path / "kafka_2.13-4.1.0.jar").touch()
    monkeypatch.setattr("tidelog.lab.targets.kafka.shutil.which", lambda name: "/usr/bin/java")
    found = KafkaTarget(tmp_path)
    found._directory = tmp_path
    found._ports = {number: (9000 + number, 9100 + number) for number in range(1, 5)}
    return found


def test_brokers_are_controllers_as_far_as_they_vote(target: KafkaTarget) -> None:
    target._spec = ClusterSpec(brokers=4, controllers=2, racks=("a", "b"), settings={"num.partitions": 3})
    first, last = target._text(1).splitlines(), target._text(4).splitlines()
    assert "process.roles=broker,controller" in first
    assert "process.roles=broker" in last
    assert "controller.quorum.voters=1@127.0.0.1:9101,2@127.0.0.1:9102" in last
    assert "listeners=PLAINTEXT://127.0.0.1:9004" in last
    assert "broker.rack=b" in last
    assert "num.partitions=3" in last
    assert target.voters == (1, 2)


def test_timeouts_are_kafkas_unless_set(target: KafkaTarget) -> None:
    assert (target.session_s, target.lag_s) == (9.0, 30.0)
    target._spec = ClusterSpec(settings={"broker.session.timeout.ms": 3000})
    assert target.session_s == 3.0


def test_only_process_faults_and_its_one_mode_are_offered(target: KafkaTarget) -> None:
    assert target.faults == {"kill", "freeze", "stop", "restart"}
    assert target.modes == {"isr"}


def test_a_broker_that_was_not_started_has_no_pid(target: KafkaTarget) -> None:
    with pytest.raises(RuntimeError, match="broker 1 does not run"):
        target.pid(1)
