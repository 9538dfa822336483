"""What of the metadata log leaves a broker."""

from uuid import UUID

from tidelog.controller import records
from tidelog.runtime.past import _told

TOPIC, GONE = UUID(int=1), UUID(int=2)


def test_only_named_kinds_and_names_for_ids() -> None:
    """Settings of brokers and groups may hold what is for nobody's eyes."""
    found = list(
        _told(
            [
                records.BrokerConfigChanged("", {"some.password": "secret"}),
                records.GroupConfigChanged("group", {"some.password": "secret"}),
                records.ProducerIdsReserved(7),
                records.PartitionChanged(TOPIC, 3, 2, 5, [2], [], 1, unclean=True),
                records.TopicDeleted(GONE),
            ],
            {TOPIC: "orders"},
        )
    )
    assert found == [
        {
            "type": "partition-changed", "partition": 3, "leader": 2, "leader_epoch": 5, "in_sync": [2],
            "eligible": [], "unclean": True, "topic": "orders",
        },
        {"type": "topic-deleted", "topic": ""},
    ]  # fmt: skip


def test_the_name_of_a_topic_that_was_deleted_since() -> None:
    created = records.TopicCreated("short", TOPIC, [[1]], {})
    assert [each["topic"] for each in _told([created, records.TopicDeleted(TOPIC)], {})] == ["short", "short"]
