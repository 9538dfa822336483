"""Producers and readers hear different things of a partition whose primary is away."""

from uuid import UUID

import msgspec
import pytest

from tidelog.broker.clients.client_kinds import PRODUCES, READS, UNKNOWN, kind_of, only_produces
from tidelog.broker.handlers.metadata import Absent, describe_partition
from tidelog.controller.image import BrokerImage, ClusterImage, PartitionImage
from tidelog.errors import ErrorCode

A, B = 1, 2
BROKERS = {each: BrokerImage(each, UUID(int=each), "h", 9092, None) for each in (A, B)}
AWAY = {**BROKERS, A: msgspec.structs.replace(BROKERS[A], fenced=True)}
LED = PartitionImage((A, B), (A, B), A, 4, last_leader=A, mode="primary-backup")
WAITING = PartitionImage((A, B), (B,), -1, 5, eligible=(A,), last_leader=A, mode="primary-backup")
GATHERING = PartitionImage((A, B), (B,), A, 6, last_leader=A, mode="primary-backup")


def leader(
    partition: PartitionImage,
    brokers: dict[int, BrokerImage],
    *lost: int,
    reads: bool,
    undecided: bool = False,
) -> int:
    image = ClusterImage(brokers=brokers)
    told = describe_partition(0, partition, image, Absent(frozenset(lost), undecided), reads=reads)
    assert (told["error_code"] == ErrorCode.NONE) == (told["leader_id"] >= 0)
    return int(told["leader_id"])


@pytest.mark.parametrize(
    ("sent", "kinds"),
    [((3, 18), UNKNOWN), ((3, 0), PRODUCES), ((22, 3), PRODUCES), ((1,), READS), ((11, 14, 9), READS)],
)
def test_what_was_sent_tells_who_it_is(sent: tuple[int, ...], kinds: int) -> None:
    found = UNKNOWN
    for api_key in sent:
        found |= kind_of(api_key)
    assert found == kinds


def test_only_who_has_shown_it_is_a_producer() -> None:
    assert only_produces(PRODUCES)
    assert not any(map(only_produces, (UNKNOWN, READS, PRODUCES | READS)))
    assert kind_of(-7) == kind_of(30_000) == UNKNOWN


@pytest.mark.parametrize("reads", [True, False])
def test_while_the_primary_leads_everybody_hears_of_it(reads: bool) -> None:
    assert leader(LED, BROKERS, reads=reads) == A


@pytest.mark.parametrize(("partition", "brokers"), [(WAITING, AWAY), (GATHERING, BROKERS)])
def test_while_nobody_leads_readers_hear_of_the_backup(
    partition: PartitionImage, brokers: dict[int, BrokerImage]
) -> None:
    assert leader(partition, brokers, reads=True) == B
    assert leader(partition, brokers, reads=False) == -1


def test_a_primary_that_was_lost_a_moment_ago() -> None:
    assert leader(LED, BROKERS, A, reads=True) == B
    assert leader(LED, BROKERS, A, reads=False) == -1


def test_no_member_stands_in_while_controllers_can_appoint_a_leader() -> None:
    assert leader(msgspec.structs.replace(WAITING, mode="isr"), AWAY, reads=True) == -1
    assert leader(msgspec.structs.replace(LED, mode="isr"), BROKERS, A, reads=True) == -1


def test_a_member_stands_in_when_the_controllers_have_ended() -> None:
    led = msgspec.structs.replace(LED, mode="isr")
    assert leader(led, BROKERS, A, reads=True, undecided=True) == B
    assert leader(led, BROKERS, A, reads=False, undecided=True) == -1
    behind = msgspec.structs.replace(led, in_sync=(A,))
    assert leader(behind, BROKERS, A, reads=True, undecided=True) == -1


def test_a_broker_that_hears_of_no_leader_does_not_stand_in() -> None:
    """Its disk is full: consumers stayed there, also when another replica led."""
    waiting = msgspec.structs.replace(WAITING, mode="quorum")
    image = ClusterImage(brokers=BROKERS)

    def named(*outdated: int) -> int:
        absent = Absent(outdated=frozenset(outdated))
        return int(describe_partition(0, waiting, image, absent, reads=True)["leader_id"])

    first = named()
    assert first in waiting.replicas
    assert named(first) in set(waiting.replicas) - {first}
    assert named(*waiting.replicas) == -1
