"""What dead letters say, and the note about those that are sent."""

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from tidelog.client.settings import ClientSettings, OAuthSettings, SaslSettings, TlsSettings
from tidelog.spark.pipelines.dead_letters import (
    DeadLetters,
    Sent,
    changed_spans,
    letters_of,
    librdkafka_settings,
)
from tidelog.spark.pipelines.tables import Place, Position, Span, Step

PLACE = Place("orders", "id-1", 0)


def test_a_note_survives_the_way_through_an_offset() -> None:
    one = Sent("id-1", Span(3, 9)).to_offset(PLACE)
    assert (one.topic, one.partition, one.offset) == ("orders", 0, 9)
    assert Sent.parse(one.offset, one.metadata) == Sent("id-1", Span(3, 9))
    assert (
        Sent.parse(9, "") is None
        and Sent.parse(9, "other:1:x") is None
        and Sent.parse(-1001, "1:3:id") is None
    )


def test_a_note_grows_on_both_sides() -> None:
    known = Sent("id-1", Span(10, 20))
    assert Sent.joined(PLACE, Span(10, 30), known).span == Span(10, 30)
    assert Sent.joined(PLACE, Span(0, 20), known).span == Span(0, 20)
    # A killed run had sent more than the next one reads at first.
    assert Sent.joined(PLACE, Span(10, 15), known).span == Span(10, 20)
    # The archive was made anew behind records that nobody read.
    assert Sent.joined(PLACE, Span(50, 60), known).span == Span(50, 60)
    assert Sent.joined(PLACE, Span(50, 60), None).span == Span(50, 60)


def test_a_step_changes_some_spans() -> None:
    other = Place("orders", "id-1", 1)
    before = Position({PLACE: Span(0, 5), other: Span(0, 5)})
    after = Position({PLACE: Span(0, 9), other: Span(0, 5)})
    assert changed_spans(Step(0, before, after)) == {PLACE: Span(0, 9)}


def test_headers_say_where_a_letter_comes_from() -> None:
    row = {
        "topic": "orders", "id": "id-1", "partition": 2, "offset": 7, "key": b"k", "value": None,
        "headers": [{"key": "trace", "value": b"x"}], "timestamp": 1234, "reason": None,
    }  # fmt: skip
    (letter,) = letters_of(pa.RecordBatch.from_pylist([row]))
    assert (letter.place, letter.offset, letter.key, letter.value) == (
        Place("orders", "id-1", 2),
        7,
        b"k",
        None,
    )
    assert letter.headers[0] == ("trace", b"x")
    assert dict(letter.headers[1:]) == {
        "tidelog.error.topic": b"orders", "tidelog.error.topic-id": b"id-1", "tidelog.error.partition": b"2",
        "tidelog.error.offset": b"7", "tidelog.error.timestamp": b"1234",
        "tidelog.error.reason": b"the value does not fit the schema",
    }  # fmt: skip


def test_the_producer_belongs_to_archive_and_topic() -> None:
    names = {DeadLetters(topic, "x:1", target).name for topic in "ab" for target in ("/a", "/b")}
    assert len(names) == 4
    assert DeadLetters("a", "x:1", "/a").name == DeadLetters("a", "y:1", "/a").name


def test_the_connection_is_that_of_the_other_client() -> None:
    tls = TlsSettings(trusted_path="/ca.pem", check_host=False)
    client = ClientSettings((("h", 1), ("::1", 2)), tls=tls, sasl=SaslSettings("SCRAM-SHA-256", "u", "p"))
    settings = librdkafka_settings(client)
    assert settings["bootstrap.servers"] == "h:1,[::1]:2" and settings["security.protocol"] == "SASL_SSL"
    assert settings["ssl.ca.location"] == "/ca.pem"
    assert settings["ssl.endpoint.identification.algorithm"] == "none"
    assert (settings["sasl.mechanism"], settings["sasl.username"]) == ("SCRAM-SHA-256", "u")


@pytest.mark.slow
def test_tokens_are_those_of_the_other_client(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    oauth = OAuthSettings(f"file:{file}", extensions=(("logicalCluster", "lkc-1"),))
    client = ClientSettings((("127.0.0.1", 9),), sasl=SaslSettings("OAUTHBEARER", "u", "", oauth))
    settings = librdkafka_settings(client)
    assert settings["security.protocol"] == "SASL_PLAINTEXT" and "sasl.username" not in settings
    text, _, _, extensions = settings["oauth_cb"](None)
    assert (text, extensions) == ("secret", {"logicalCluster": "lkc-1"})
    asked = threading.Event()

    def watched(config: object) -> object:
        found = settings["oauth_cb"](config)
        asked.set()
        return found

    producer = Producer({**settings, "oauth_cb": watched})
    assert asked.wait(30), "the library did not ask for a token"
    del producer
