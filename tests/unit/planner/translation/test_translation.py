"""Settings of other systems, and back to Kafka."""

import pytest

from tidelog.planner.promises import Terms
from tidelog.planner.translation.kafka import from_kafka, to_kafka
from tidelog.planner.translation.others import SYSTEMS


class TestKafka:
    def test_topic_and_producer_settings(self) -> None:
        found = from_kafka(
            {
                "replication.factor": "3",
                "min.insync.replicas": "1",
                "acks": "1",
                "unclean.leader.election.enable": "true",
            }
        )
        assert found.terms == Terms("isr", 3, min_in_sync=1, unclean=True, acks="1", kafka=True)
        assert any(note.startswith("acks=1") for note in found.notes)

    def test_a_broker_configuration(self) -> None:
        found = from_kafka(
            {"default.replication.factor": "3", "log.flush.interval.messages": "1", "num.partitions": "6"}
        )
        assert found.terms == Terms("isr", 3, min_in_sync=1, synced=True, kafka=True)
        assert found.partitions == 6
        assert "No min.insync.replicas was given: Kafka's default is 1." in found.notes

    def test_other_settings_are_named_with_whether_they_matter(self) -> None:
        matters = ("replica.lag.time.max.ms", "broker.rack", "turbo", "log.flush.interval.ms")
        misspelt = ("num.partitons", "log.flush.interval.message", "unclean.leader.election.enabled")
        harmless = (
            "log.retention.hours",
            "auto.leader.rebalance.enable",
            "leader.imbalance.check.interval.seconds",
            "offsets.retention.minutes",
            "num.io.threads",
        )
        given = dict.fromkeys((*matters, *misspelt, *harmless), "1")
        said = {each.partition(":")[0]: each for each in from_kafka(given).unknown}
        assert said.keys() == {*matters, *misspelt}
        assert all("not known" in said[each] for each in misspelt)
        assert "still may lose records" in said["log.flush.interval.ms"]
        assert "not what is lost" in said["replica.lag.time.max.ms"]
        assert "may matter" in said["turbo"]

    def test_a_minimum_above_the_replicas_is_said(self) -> None:
        assert (
            "refuses every write"
            in from_kafka({"replication.factor": "1", "min.insync.replicas": "2"}).notes[-1]
        )

    @pytest.mark.parametrize("terms", [Terms("isr", 3), Terms("isr", 5, min_in_sync=3, synced=True)], ids=str)
    def test_there_and_back(self, terms: Terms) -> None:
        assert from_kafka(to_kafka(terms)[0]).terms == terms._replace(kafka=True)

    def test_what_kafka_does_not_have(self) -> None:
        settings, notes = to_kafka(Terms("quorum", 5, synced=True))
        assert settings["min.insync.replicas"] == "3"
        assert len(notes) == 2
        assert "degrade" in to_kafka(Terms("primary-backup", 2, degrades=True))[1][-1]


OTHERS = [
    ("rocketmq", {}, Terms("primary-backup", 2, min_in_sync=1)),
    (
        "rocketmq",
        {"brokerRole": "SYNC_MASTER", "flushDiskType": "SYNC_FLUSH"},
        Terms("primary-backup", 2, min_in_sync=2, synced=True),
    ),
    (
        "rocketmq",
        {"brokerRole": "SYNC_MASTER", "enableAutoInSyncReplicas": "true", "replicas": "3"},
        Terms("primary-backup", 3, min_in_sync=2, degrades=True),
    ),
    ("dledger", {"replicas": "5"}, Terms("quorum", 5)),
    ("dledger", {"replicas": "3", "flushDiskType": "SYNC_FLUSH"}, Terms("quorum", 3, synced=True)),
    ("nats", {"replicas": "3", "sync_interval": "always"}, Terms("quorum", 3, synced=True)),
    ("nats", {"replicas": "1"}, Terms("quorum", 3)),
    ("rabbitmq", {"x-quorum-initial-group-size": "5"}, Terms("quorum", 5, synced=True)),
]


@pytest.mark.parametrize(("system", "options", "expected"), OTHERS)
def test_other_systems(system: str, options: dict[str, str], expected: Terms) -> None:
    found = SYSTEMS[system](options)
    assert found.terms == expected
    assert found.notes
    assert not found.unknown


@pytest.mark.parametrize("system", SYSTEMS)
def test_unknown_options_are_named(system: str) -> None:
    assert SYSTEMS[system]({"turbo": "on"}).unknown[0].startswith("turbo: not known")


class TestRocketMq:
    def test_the_default_of_version_5_is_said(self) -> None:
        given = {"brokerRole": "SYNC_MASTER"}
        assert any("waits for no slave there" in note for note in SYSTEMS["rocketmq"](given).notes)
        sure = SYSTEMS["rocketmq"](given | {"inSyncReplicas": "2"})
        assert not any("waits for no slave there" in note for note in sure.notes)

    def test_copies_count_for_a_synchronous_master_only(self) -> None:
        found = SYSTEMS["rocketmq"]({"inSyncReplicas": "2"})
        assert found.terms.copies == 1
        assert "inSyncReplicas has no meaning without brokerRole=SYNC_MASTER." in found.notes

    def test_names_and_sizes_are_not_reported(self) -> None:
        found = SYSTEMS["rocketmq"]({"brokerName": "a", "deleteWhen": "04", "turbo": "1"})
        assert [each.partition(":")[0] for each in found.unknown] == ["turbo"]


@pytest.mark.parametrize("text", ["two", "0", "-1", ""])
def test_numbers_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"replicas is '.*'; it is a number from 1 on"):
        SYSTEMS["nats"]({"replicas": text})


@pytest.mark.parametrize(
    ("system", "name", "value"),
    [
        ("rocketmq", "brokerRole", "SYNCMASTER"),
        ("rocketmq", "brokerRole", "SLAVE"),
        ("rocketmq", "flushDiskType", "SYNC"),
        ("rocketmq", "enableAutoInSyncReplicas", "yes"),
        ("dledger", "flushDiskType", "SYNC"),
        ("kafka", "unclean.leader.election.enable", "yes"),
        ("kafka", "enable.idempotence", "no"),
        ("kafka", "flush.messages", "always"),
    ],
)
def test_a_misspelt_value_is_not_taken_for_the_default(system: str, name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is '{value}'; it is "):
        ({"kafka": from_kafka} | SYSTEMS)[system]({name: value})


@pytest.mark.parametrize("system", ["dledger", "nats", "rabbitmq"])
@pytest.mark.parametrize("replicas", ["1", "2"])
def test_a_quorum_has_as_many_replicas_as_its_topics_need(system: str, replicas: str) -> None:
    found = SYSTEMS[system]({"replicas": replicas})
    assert found.terms.replicas == 3
    assert f"quorum needs 3 replicas; {replicas} would not survive anything." in found.notes


def test_more_copies_than_replicas_are_said() -> None:
    found = SYSTEMS["rocketmq"]({"brokerRole": "SYNC_MASTER", "inSyncReplicas": "5"})
    assert any("inSyncReplicas=5 with 2 replicas" in note for note in found.notes)
