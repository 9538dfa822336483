"""Where partitions end."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tidelog.lab import read_back


class Client:
    """Does not know the topic at first."""

    calls = 0

    def __init__(self, settings: dict[str, Any]) -> None:
        pass

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        Client.calls += 1
        if Client.calls < 3:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        return 0, 7 + place.partition

    def close(self) -> None:
        pass


def test_a_topic_that_a_broker_does_not_know_yet_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_back, "Consumer", Client)
    monkeypatch.setattr(read_back, "RETRY_S", 0.001)
    monkeypatch.setattr(Client, "calls", 0)
    assert read_back.end_offsets("b:1", "t", 2, 10) == [7, 8]
    monkeypatch.setattr(Client, "calls", -(10**9))
    with pytest.raises(read_back.LoadFailed, match="the ends of t are not known"):
        read_back.end_offsets("b:1", "t", 1, 0.01)
