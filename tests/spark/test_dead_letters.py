"""Undecodable records in a topic: each once, whatever was killed when."""

import uuid
from collections.abc import Iterable

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tidelog.client.settings import ClientSettings, parse_bootstrap
from tidelog.spark.options import OptionError
from tidelog.spark.pipelines import dead_letters
from tidelog.spark.pipelines.dead_letters import DeadLetters, DeadLettersFailed, Letter, send
from tidelog.spark.pipelines.tables import Place, Position, Span, Step

from .arrived import consume
from .conftest import CreateTopic


@pytest.fixture
def source(create_topic: CreateTopic) -> Place:
    return Place(create_topic(1), "id-1", 0)


@pytest.fixture
def letters(bootstrap: str) -> DeadLetters:
    name = uuid.uuid4().hex[:8]
    return DeadLetters(f"dead-{name}", bootstrap, f"/data/{name}")


def send_range(letters: DeadLetters, place: Place, offsets: Iterable[int], span: Span) -> int:
    client = ClientSettings(parse_bootstrap(letters.bootstrap))
    written = [Letter(place, offset, None, str(offset).encode(), []) for offset in offsets]
    return send(written, {place: span}, letters.topic, letters.name, client)


def arrived(letters: DeadLetters) -> list[int]:
    return sorted(int(one.value or b"") for one in consume(letters.bootstrap, letters.topic))


def test_what_is_sent_again_arrives_once(letters: DeadLetters, source: Place) -> None:
    assert send_range(letters, source, [2, 5], Span(0, 10)) == 2
    # The archive's step was not added: the next run reads the records again, and some new ones.
    assert send_range(letters, source, [2, 5, 11], Span(0, 12)) == 1
    # Older records are archived afterwards in a later step; the topic itself is created again after that.
    assert send_range(letters, source, [2, 5], Span(0, 12)) == 0
    assert send_range(letters, source._replace(topic_id="id-2"), [2], Span(0, 3)) == 1
    assert send_range(letters, source, [], Span(0, 20)) == 0
    assert arrived(letters) == [2, 2, 5, 11]


def test_a_killed_run_leaves_nothing(
    letters: DeadLetters, source: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    class Dying(Producer):
        def commit_transaction(self, *_: object) -> None:
            self.flush()
            raise Killed

    monkeypatch.setattr("confluent_kafka.Producer", Dying)
    with pytest.raises(Killed):
        send_range(letters, source, [1, 2], Span(0, 3))
    monkeypatch.undo()
    assert send_range(letters, source, [1, 2, 3], Span(0, 4)) == 3
    assert arrived(letters) == [1, 2, 3]


def test_of_two_runs_the_later_one_wins(
    letters: DeadLetters, source: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = dead_letters._read_note

    def overtaken(*arguments: object) -> object:
        """Another run begins and ends while this one has begun."""
        monkeypatch.undo()
        assert send_range(letters, source, [1, 2], Span(0, 3)) == 2
        return read(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(dead_letters, "_read_note", overtaken)
    with pytest.raises(DeadLettersFailed, match="Another run of this archive"):
        send_range(letters, source, [1, 2, 3], Span(0, 4))
    assert arrived(letters) == [1, 2]


def test_rows_of_spark_become_letters(spark: SparkSession, letters: DeadLetters, source: Place) -> None:
    rows = spark.createDataFrame(
        [(source.topic, "id-1", 0, 7, b"k", b"broken", [("a", b"x")], 1234.5)],
        "topic string, topicId string, partition int, offset long, key binary, value binary, "
        "headers array<struct<key:string,value:binary>>, seconds double",
    ).selectExpr("*", "timestamp_millis(cast(seconds * 1000 as long)) as timestamp")
    step = Step(0, Position(), Position({source: Span(0, 8)}))
    assert [letters(rows, step), letters(rows, step)] == [1, 0]
    (one,) = consume(letters.bootstrap, letters.topic)
    assert (one.key, one.value, one.headers[0]) == (b"k", b"broken", ("a", b"x"))
    told = dict(one.headers)
    assert told["tidelog.error.offset"] == b"7" and told["tidelog.error.timestamp"] == b"1234500"
    with pytest.raises(OptionError, match="is archived itself"):
        DeadLetters(source.topic, letters.bootstrap, "/x")(rows, step)
