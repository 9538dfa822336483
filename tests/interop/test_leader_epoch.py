"""Leader epochs: where an epoch ends, and who is fenced for knowing an old or a future one."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from . import calls
from .records import batch
from .wire import Wire

pytestmark = pytest.mark.interop


@pytest.fixture
def epoch(wire: Wire, topic: str) -> int:
    """The topic's current leader epoch; the topic has three records in it."""
    calls.produce(wire, topic, bytes(batch(b"a", b"b", b"c")))
    return calls.metadata(wire, topic).partitions[0].leader_epoch  # type: ignore[no-any-return]


def end_of_epoch(wire: Wire, topic: str, epoch: int, current: int = -1, partition: int = 0) -> Any:
    part = {"partition": partition, "leader_epoch": epoch, "current_leader_epoch": current}
    topics = [{"topic": topic, "partitions": [part]}]
    answer = wire.call("offset_for_leader_epoch", 4, replica_id=-1, topics=topics)
    return answer.topics[0].partitions[0]


def test_the_current_epoch_ends_where_the_log_ends(wire: Wire, topic: str, epoch: int) -> None:
    answer = end_of_epoch(wire, topic, epoch)
    assert answer.error_code is ErrorCode.none
    assert (answer.leader_epoch, answer.end_offset) == (epoch, 3)


def test_an_unknown_later_epoch_has_no_end(wire: Wire, topic: str, epoch: int) -> None:
    answer = end_of_epoch(wire, topic, epoch + 5)
    assert answer.error_code is ErrorCode.none
    assert (answer.leader_epoch, answer.end_offset) == (-1, -1)


def test_unknown_partition(wire: Wire, topic: str, epoch: int) -> None:
    answer = end_of_epoch(wire, topic, epoch, partition=9)
    assert answer.error_code is ErrorCode.unknown_topic_or_partition


def test_a_future_epoch_is_not_known_yet(wire: Wire, topic: str, epoch: int) -> None:
    future = epoch + 1
    assert end_of_epoch(wire, topic, epoch, future).error_code is ErrorCode.unknown_leader_epoch
    fetched = calls.fetch(wire, topic, 0, partition_fields={"current_leader_epoch": future})
    assert fetched.error_code is ErrorCode.unknown_leader_epoch
    part = {"partition_index": 0, "current_leader_epoch": future, "timestamp": calls.LATEST}
    listed = wire.call("list_offsets", 8, replica_id=-1, topics=[{"name": topic, "partitions": [part]}])
    assert listed.topics[0].partitions[0].error_code is ErrorCode.unknown_leader_epoch


def test_the_current_epoch_is_welcome(wire: Wire, topic: str, epoch: int) -> None:
    assert end_of_epoch(wire, topic, epoch, epoch).error_code is ErrorCode.none
    fetched = calls.fetch(wire, topic, 0, partition_fields={"current_leader_epoch": epoch})
    assert fetched.error_code is ErrorCode.none


def test_a_consumer_that_diverged_is_told_where(wire: Wire, topic: str, epoch: int) -> None:
    """It read offset 9 in this epoch, it says; the log never went there, so it must go back to 3."""
    fields = {"current_leader_epoch": epoch, "last_fetched_epoch": epoch}
    assert calls.fetch(wire, topic, 3, max_wait=0, partition_fields=fields).error_code is ErrorCode.none
    fetched = calls.fetch(wire, topic, 9, partition_fields=fields)
    diverging = fetched.diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (epoch, 3)
    assert not fetched.records
