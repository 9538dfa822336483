"""Who may serve a reader what was given up, and what counts against the cluster."""

from typing import Any, cast

import pytest

from tidelog.errors import ErrorCode
from tidelog.protocol.records import Record, encode_batch
from tidelog.sim.checkers.batches import Entry
from tidelog.sim.checkers.history import PartitionHistory, Write
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.clients.client import Client, Reply
from tidelog.sim.clients.reader import Reader
from tidelog.sim.world import World

NAMED, OTHER = 3, 4
EPOCH = 1
GIVEN_UP, REPLACED = b"given up", b"in its place"


class OneLeaderKnown:
    """As much of a client as a reader needs. Metadata name one broker as the leader."""

    client_id = 9
    reads = False

    def __init__(self) -> None:
        self.world = World(1)


@pytest.fixture
def history() -> PartitionHistory:
    found = PartitionHistory("t-0")
    for number, value in enumerate((GIVEN_UP, REPLACED)):
        found.sent(value, Write(1, number, -1, idempotent=True))
    found.told(GIVEN_UP, 0, EPOCH)
    found.forgive(floor=0, leader_epoch=EPOCH, now_ms=1.0)
    return found


def reader_gets(
    history: PartitionHistory, broker: int, follower_epoch: int | None, led_epoch: int | None = None
) -> Reader:
    """The record that was given up, from a broker that does not lead but knows of an epoch; or leads."""
    reader = Reader(cast(Client, OneLeaderKnown()), history, "t", 0)
    reader.committing = False
    records: Any = encode_batch([Record(0, 0, None, GIVEN_UP, ())], leader_epoch=EPOCH)
    reply = Reply(
        1, ErrorCode.NONE, records=bytes(records), left_ms=2.0, process="p", watermark=1, stable=1,
        agreed_epoch=EPOCH, follower_epoch=follower_epoch, led_epoch=led_epoch,
    )  # fmt: skip
    reader._got(reply, broker, at_leader=broker == NAMED)
    return reader


@pytest.mark.parametrize(("broker", "follower_epoch"), [(NAMED, EPOCH), (OTHER, EPOCH), (OTHER, EPOCH + 1)])
def test_a_follower_that_may_not_have_heard_of_it(
    history: PartitionHistory, broker: int, follower_epoch: int
) -> None:
    """Also a stand-in, which metadata name while there is no leader."""
    reader = reader_gets(history, broker, follower_epoch)
    assert reader.position == 0
    history.told(REPLACED, 0, EPOCH + 1)
    history.check([Entry(0, EPOCH + 1, REPLACED)], 0, EPOCH + 1)


@pytest.mark.parametrize("follower_epoch", [None, EPOCH + 1])
def test_not_a_leader_and_not_a_stand_in_that_has_heard_of_a_later_one(
    history: PartitionHistory, follower_epoch: int | None
) -> None:
    reader = reader_gets(history, NAMED, follower_epoch)
    assert reader.position == 1
    with pytest.raises(Violation, match="inconsistent offset 0"):
        history.told(REPLACED, 0, EPOCH + 1)


def test_a_stand_in_that_knows_only_of_an_epoch_without_a_leader(history: PartitionHistory) -> None:
    """It has not heard of the operator's choice, which was made two epochs later."""
    history.forgive(floor=0, leader_epoch=EPOCH, now_ms=1.0, leaderless_epoch=EPOCH + 2)
    assert reader_gets(history, NAMED, EPOCH + 1).position == 0
    assert reader_gets(history, NAMED, EPOCH + 3).position == 1


def test_a_leader_that_has_not_heard_of_its_successor(history: PartitionHistory) -> None:
    history.forgive(floor=0, leader_epoch=EPOCH, now_ms=1.0, leaderless_epoch=EPOCH)
    assert reader_gets(history, NAMED, None, led_epoch=EPOCH).position == 0
    assert reader_gets(history, NAMED, None, led_epoch=EPOCH + 1).position == 1


def test_not_a_leader_whose_epoch_goes_on(history: PartitionHistory) -> None:
    """Records were lost by others, and it is read like any leader."""
    history.forgive(floor=0, leader_epoch=EPOCH, now_ms=1.0, leaderless_epoch=EPOCH - 1)
    assert reader_gets(history, NAMED, None, led_epoch=EPOCH).position == 1
