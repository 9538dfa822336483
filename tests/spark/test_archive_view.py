"""What an archive learns of a cluster, from a real broker and without Spark."""

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tidelog.spark.pipelines.archive_view import Asked, Seen, View, _look
from tidelog.spark.pipelines.source import Topics

from .conftest import CreateTopic

START_MS = 1_700_000_000_000


def asked(bootstrap: str, names: str = "", *archived: str, pattern: str = "", **options: str) -> Asked:
    return Asked(Topics(bootstrap, names, pattern, options).stream_options(), archived)


def fill(bootstrap: str, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"x", partition=partition, timestamp=START_MS + number * 1000)
    assert producer.flush(60) == 0


def offsets(view: View) -> list[tuple[int, int, int]]:
    return [(one.earliest, one.latest, one.start) for one in view.partitions]


def test_ids_and_offsets(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(2, retention_ms=-1)
    fill(bootstrap, topic, 30)
    view = _look(asked(bootstrap, topic))
    assert offsets(view) == [(0, 30, 0), (0, 0, 0)] and not view.missing
    assert {one.place.topic for one in view.partitions} == {topic}
    (topic_id,) = {one.place.topic_id for one in view.partitions}
    assert len(topic_id) == 22
    assert View.from_json(view.to_json()) == view
    # Where a first run begins; later ones have a position, and new partitions begin at their beginning.
    latest = asked(bootstrap, topic, startingOffsets="latest")
    assert offsets(_look(latest)) == [(0, 30, 30), (0, 0, 0)]
    assert offsets(_look(Asked(latest.options, [topic]))) == [(0, 30, 0), (0, 0, 0)]

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    create_topic(1, name=topic)
    again = _look(asked(bootstrap, topic, topic)).partitions
    assert len(again) == 1 and again[0].place.topic_id not in ("", topic_id)


def test_ranges_of_time(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(2, retention_ms=-1)
    fill(bootstrap, topic, 30)
    options = asked(bootstrap, topic).options
    first, empty = _look(Asked(options, [], START_MS + 4_500, START_MS + 20_000)).partitions
    assert (first.from_offset, first.to_offset) == (5, 20)
    assert (empty.from_offset, empty.to_offset) == (0, 0)
    late = _look(Asked(options, [], START_MS + 60_000, None)).partitions[0]
    assert (late.from_offset, late.to_offset) == (30, None)


def test_topics_that_are_not_there(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1)
    view = _look(asked(bootstrap, f"{topic},{topic}s,quite-another"))
    assert [one.place.topic for one in view.partitions] == [topic]
    assert topic in view.missing[f"{topic}s"] and view.missing["quite-another"] == []
    nothing = _look(asked(bootstrap, "quite-another"))
    assert nothing == View([], {"quite-another": []})
    pattern = asked(bootstrap, "", topic, f"{topic}-old", "other", pattern=f"{topic}.*")
    assert _look(pattern).gone == [f"{topic}-old"]


def test_what_a_stream_refuses_is_refused(bootstrap: str) -> None:
    with pytest.raises(Exception, match="endingOffsets does not apply to a stream"):
        _look(asked(bootstrap, "any", endingOffsets="latest"))


def test_a_view_survives_its_journey_through_a_worker() -> None:
    from tidelog.spark.pipelines.tables import Place

    view = View([Seen(Place("a", "", 3), 1, 2, 1, None, 2)], {"b": ["c"]}, ["d"])
    assert View.from_json(view.to_json()) == view
