"""Stories about coordinators can fail: each mutation takes one rule away, and the story that tells why the
rule is there must notice.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tidelog.broker.node.lifecycle import BrokerLifecycle
from tidelog.broker.node.node import Node
from tidelog.broker.node.sightings import Sightings
from tidelog.broker.partitions.partition import Partition
from tidelog.errors import InvariantViolation
from tidelog.groups.consumer import heartbeats
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.requests import ConsumerRequests
from tidelog.groups.effects import Effects, KeyValue, Respond
from tidelog.log.producers import ProducerStates
from tidelog.replication.fetch_server import FetchServer
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import group_owners, hanging, late_markers, lost_orders, old_mail
from tidelog.sim.story import Story
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def answer_ahead_of_the_log(patch: pytest.MonkeyPatch) -> None:
    """A request that changes nothing is answered at once, whatever is being written."""
    original = ConsumerRequests._write

    def write(
        self: ConsumerRequests, group: ConsumerGroup, records: Sequence[KeyValue], waiter: Any, answer: Any
    ) -> Effects:
        if not records and waiter is not None:
            return [Respond(waiter, answer)]
        return original(self, group, records, waiter, answer)

    patch.setattr(ConsumerRequests, "_write", write)


def take_old_asks_for_new_ones(patch: pytest.MonkeyPatch) -> None:
    """Whatever arrives from a follower shows that it follows now."""

    def followed_until_ms(self: FetchServer, driver: Any, follower: int) -> int:
        standing = self._sessions.get(follower)
        return -1 if standing is None else standing.heard_ms

    patch.setattr(FetchServer, "followed_until_ms", followed_until_ms)


def trust_what_was_so_a_moment_ago(patch: pytest.MonkeyPatch) -> None:
    """Whoever was followed a moment ago tells what it knows."""
    patch.setattr(Partition, "leads_for_certain", True)


def take_old_asks_and_trust(patch: pytest.MonkeyPatch) -> None:
    """Both: each of the two rules alone keeps a thawed coordinator from telling what is old."""
    take_old_asks_for_new_ones(patch)
    trust_what_was_so_a_moment_ago(patch)


def trust_the_session(patch: pytest.MonkeyPatch) -> None:
    """Closed connections do not count before the session is over."""
    patch.setattr(BrokerLifecycle, "controller_lost", lambda self: None)
    trust_the_present_controller(patch)


def trust_the_present_controller(patch: pytest.MonkeyPatch) -> None:
    """It has answered since connections closed, so nobody fences this broker before its session is over. (A
    broker also doubts while it has no metadata of a controller that is new to it.)
    """
    patch.setattr(Sightings, "may_be_fenced_early", False)
    patch.setattr(Node, "_hears_decisions", lambda self: True)


def take_late_markers(patch: pytest.MonkeyPatch) -> None:
    """A marker ends whatever its producer has open."""
    patch.setattr(ProducerStates, "is_late", lambda self, producer_id, epoch, marker: False)


def continue_what_was_left_open(patch: pytest.MonkeyPatch) -> None:
    """A transaction whose end was lost is ended with the producer's next one."""
    patch.setattr(ProducerStates, "left_open", lambda self, producer_id, epoch: None)


def end_pending_offsets_too_early(patch: pytest.MonkeyPatch) -> None:
    """A late copy of a marker is not written, and yet ends what the next transaction has sent."""
    original = Partition.append_marker
    patch.setattr(Partition, "append_marker", lambda self, *args: original(self, *args)._replace(is_new=True))


def tell_orders_once(patch: pytest.MonkeyPatch) -> None:
    """A member is told what it has when that changes, and whoever does not hear it never does."""
    patch.setattr(heartbeats, "within", lambda owned, held: True)


MUTATIONS: list[tuple[Patch, Callable[[], Story]]] = [
    (answer_ahead_of_the_log, group_owners.member_that_was_thrown_out_in_vain),
    (take_old_asks_for_new_ones, old_mail.frozen_leader_is_not_followed_still),
    (take_old_asks_and_trust, group_owners.thawed_coordinator_reads_old_mail),
    (trust_what_was_so_a_moment_ago, group_owners.coordinator_that_the_controllers_do_not_hear),
    (trust_the_session, group_owners.coordinator_whose_connections_closed),
    (trust_the_present_controller, group_owners.coordinator_that_another_controller_has_lost),
    (take_late_markers, late_markers.copy_that_arrives_in_the_next_transaction),
    (continue_what_was_left_open, hanging.next_transaction_where_the_end_was_lost),
    (end_pending_offsets_too_early, lost_orders.late_marker_beside_pending_offsets),
    (tell_orders_once, lost_orders.order_to_give_up),
]


@pytest.mark.parametrize(("mutate", "story"), MUTATIONS, ids=lambda each: each.__name__)
def test_a_story_notices(mutate: Patch, story: Callable[[], Story], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    with pytest.raises((StoryFailed, Violation, InvariantViolation)):
        story()
