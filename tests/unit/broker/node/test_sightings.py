"""What a node has seen of others, and what it concludes about the controllers."""

import pytest

from tidelog.broker.node.lifecycle import relied_on_ms
from tidelog.broker.node.sightings import Sightings
from tidelog.replication.voters import VoterSet
from unit.broker.fakes import FakeServices

ME, SESSION_MS = 1, 1000
RELIED_ON_MS = relied_on_ms(SESSION_MS)


class Seen:
    def __init__(self) -> None:
        self.services = FakeServices()
        self.controllers: tuple[int, ...] = (1, 2, 3)
        self.sightings = Sightings(ME, self.services, lambda: VoterSet.of(self.controllers), SESSION_MS)

    def end(self, *peers: int) -> None:
        for peer in peers:
            self.sightings.went_silent(peer)
            assert self.sightings.ended(peer)

    def may_have_been_decided(self) -> bool:
        """While this broker had a session until now."""
        return self.sightings.may_have_been_decided(self.services.uptime_ms())

    def may_be_fenced_early(self) -> bool:
        return self.sightings.may_be_fenced_early

    def look(self) -> None:
        self.sightings.look(self.services.uptime_ms(), self.sightings.orphaning())


@pytest.fixture
def seen() -> Seen:
    return Seen()


def test_only_who_is_silent_can_have_ended(seen: Seen) -> None:
    assert not seen.sightings.ended(2)
    assert seen.sightings.silent() == []
    seen.end(2)
    assert seen.sightings.silent() == [(2, True)]


def test_who_is_heard_again_is_neither_lost_nor_dead(seen: Seen) -> None:
    seen.end(2, 3)
    seen.sightings.heard(2)
    assert seen.sightings.lost == {3}
    assert seen.sightings.silent() == [(3, True)]
    assert seen.sightings.has_deciders


def test_the_lost_are_forgotten_when_the_controllers_have_had_their_time(seen: Seen) -> None:
    lost = seen.sightings.lost
    seen.sightings.went_silent(2)
    seen.services.advance(2 * SESSION_MS - 1)
    seen.look()
    assert lost == {2}
    seen.services.advance(1)
    seen.look()
    assert lost == set()


def test_not_where_no_controllers_are_left_to_say_so(seen: Seen) -> None:
    seen.end(2, 3)
    assert seen.sightings.orphaning() == {2, 3}
    seen.look()
    assert seen.sightings.lost == {2, 3}
    assert not seen.sightings.has_deciders


def test_the_other_controllers_decide_while_they_are_a_majority(seen: Seen) -> None:
    assert seen.may_have_been_decided()
    seen.end(2)
    assert not seen.may_have_been_decided()
    assert seen.sightings.orphaning() == frozenset()


def test_an_end_that_was_seen_holds_for_a_session(seen: Seen) -> None:
    """One that started since gives this broker a whole session before it takes it for dead. Its clock may be
    faster.
    """
    seen.end(2)
    since_ms = seen.services.uptime_ms()
    seen.services.advance(RELIED_ON_MS - 1)
    assert not seen.sightings.may_have_been_decided(since_ms)
    seen.services.advance(1)
    assert seen.sightings.may_have_been_decided(since_ms)


def test_what_they_decided_before_they_ended_counts(seen: Seen) -> None:
    since_ms = seen.services.uptime_ms()
    seen.services.advance(1)
    seen.end(2)
    assert seen.sightings.may_have_been_decided(since_ms)
    assert not seen.sightings.may_have_been_decided(since_ms + 1)


@pytest.mark.parametrize("is_heard", [False, True])
def test_so_does_what_they_decided_in_between(seen: Seen, is_heard: bool) -> None:
    """One of them was heard again, or was not seen to be down for longer than a session."""
    seen.end(2)
    since_ms = seen.services.uptime_ms()
    seen.services.advance(RELIED_ON_MS if not is_heard else 1)
    if is_heard:
        seen.sightings.heard(2)
    seen.end(2)
    assert seen.sightings.may_have_been_decided(since_ms)


def test_an_end_that_is_seen_again_in_time_holds_on(seen: Seen) -> None:
    seen.end(2)
    since_ms = seen.services.uptime_ms()
    for _ in range(3):
        seen.services.advance(RELIED_ON_MS - 1)
        seen.end(2)
    assert not seen.sightings.may_have_been_decided(since_ms)


def test_nothing_is_kept_of_who_is_no_node(seen: Seen) -> None:
    """Clients can say to be any node."""
    seen.sightings.heard(99)
    seen.sightings.forget(99)
    seen.end(98)
    seen.sightings.forget(98)
    assert seen.sightings.silent() == []
    assert not seen.sightings.lost
    assert 99 not in seen.sightings._heard_ms
    seen.look()


def test_a_new_process_has_not_ended_with_the_last_one(seen: Seen) -> None:
    seen.end(2, 3)
    seen.sightings.registered(2)
    assert (2, True) not in seen.sightings.silent()
    assert (3, True) in seen.sightings.silent()
    assert seen.sightings.orphaning() == frozenset()


def test_who_has_been_silent_for_long_did_not_fail_together_with_the_last_controller(seen: Seen) -> None:
    seen.sightings.went_silent(2)
    assert seen.sightings.silent() == [(2, False)]
    seen.services.advance(2 * SESSION_MS)
    seen.look()
    assert seen.sightings.silent() == []


def test_a_controller_whose_connections_closed_may_fence_this_broker_until_it_is_heard(seen: Seen) -> None:
    assert not seen.may_be_fenced_early()
    seen.sightings.went_silent(2)
    assert seen.may_be_fenced_early()
    seen.sightings.heard(2)
    assert not seen.may_be_fenced_early()


def test_a_controller_may_fence_this_broker_early_for_as_long_as_it_counts_the_closing(seen: Seen) -> None:
    seen.sightings.went_silent(2)
    seen.services.advance(3 * SESSION_MS)
    seen.sightings.went_silent(2)  # An attempt to connect again has failed.
    seen.services.advance(4 * SESSION_MS - 1)
    assert seen.may_be_fenced_early()
    seen.services.advance(1)
    assert not seen.may_be_fenced_early()


def test_a_controller_that_has_ended_fences_nobody(seen: Seen) -> None:
    seen.end(2)
    assert not seen.may_be_fenced_early()
    seen.services.advance(SESSION_MS)  # It may have been started again, and not be reachable.
    assert seen.may_be_fenced_early()


def test_two_of_four_controllers_may_remove_one_and_decide(seen: Seen) -> None:
    seen.controllers = (1, 2, 3, 4)
    seen.end(4)
    assert seen.may_have_been_decided()
    seen.end(3)
    assert not seen.may_have_been_decided()


def test_one_of_two_controllers_may_add_one_and_decide(seen: Seen) -> None:
    seen.controllers = (1, 2)
    seen.look()
    assert seen.may_have_been_decided()
    seen.end(2)
    assert not seen.may_have_been_decided()


def test_only_controllers_fence(seen: Seen) -> None:
    seen.sightings.went_silent(4)
    assert not seen.may_be_fenced_early()
