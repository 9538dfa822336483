"""The small worlds can find bugs: each mutation breaks one rule, and the scope that is about it must tell a
shortest way to the broken promise.

The first four are holes that were open once, and were found by a second reading and not by seeds.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tidelog.broker.quorum.voters import FORGOT
from tidelog.replication.effects import Commit
from tidelog.replication.election import Election
from tidelog.replication.replica import Replica, Role
from tidelog.sim.explore import SCOPES

pytestmark = pytest.mark.timeout(600)  # As for the scopes without mutations.

Patch = Callable[[pytest.MonkeyPatch], None]


# --- holes that were open -----------------------------------------------------------------------------------


def votes_come_back_by_arithmetic(patch: pytest.MonkeyPatch) -> None:
    """Where a majority has forgotten, everybody votes again with what it has."""

    def forgot(partition: Any, voters: Any, replica: int) -> bool:
        remember = {*partition.in_sync, *partition.eligible}
        return replica not in remember and 2 * len(remember) > len(partition.replicas)

    patch.setattr("tidelog.broker.quorum.voters.forgot", forgot)
    patch.setattr("tidelog.broker.quorum.partitions.forgot", forgot)


def any_readmission_heals(patch: pytest.MonkeyPatch) -> None:
    """A voter that was readmitted once counts, whatever it has lost since."""

    def members(voters: Any, partition: Any, leader: int) -> Iterator[tuple[int, int]]:
        for voter in voters:
            loss = partition.loss_of(voter.voter_id)
            if voter.voter_id in partition.remember or voter.voter_id == leader:
                yield voter.voter_id, -1
            else:
                yield voter.voter_id, loss.number if voter.heals >= 0 else FORGOT

    patch.setattr("tidelog.broker.quorum.voters._members", members)


def stand_in_with_everything(patch: pytest.MonkeyPatch) -> None:
    """A backup that stands in takes all of its log for confirmed, whoever wrote it."""

    def stand_in(self: Replica, *acted_epoch: int) -> list[Any]:
        end_offset = self.log.end_offset
        if self.role is not Role.FOLLOWER or end_offset <= self.high_watermark:
            return []
        self.watermark.offset = end_offset
        return [Commit(end_offset)]

    patch.setattr(Replica, "stand_in", stand_in)


def refusals_leave_no_trace(patch: pytest.MonkeyPatch) -> None:
    """A copy of a refused proposal that is still under way can be taken later."""
    patch.setattr("tidelog.controller.leader_assignment._refused", lambda image, proposal: [])


# --- rules that always held ---------------------------------------------------------------------------------


def vote_for_anybody(patch: pytest.MonkeyPatch) -> None:
    """Whoever asks gets the vote, whatever its log lacks."""
    grant, would_elect = Election._grant, Election._would_elect
    patch.setattr(Election, "_grant", lambda self, ask, now_ms, tail: grant(self, ask, now_ms, ask.tail))
    patch.setattr(
        Election,
        "_would_elect",
        lambda self, ask, now_ms, chance, tail: would_elect(self, ask, now_ms, chance, ask.tail),
    )


def join_before_it_is_confirmed(patch: pytest.MonkeyPatch) -> None:
    """The watermark does not wait for a member whose joining is on its way."""
    original = Replica._maybe_join

    def maybe_join(self: Replica, replica: int, progress: Any) -> Any:
        before = self.maximal_in_sync
        effects = original(self, replica, progress)
        self.maximal_in_sync = before
        return effects

    patch.setattr(Replica, "_maybe_join", maybe_join)


def everybody_holds_the_seal(patch: pytest.MonkeyPatch) -> None:
    """All replicas are members when a log is sealed, whatever they hold of it."""
    patch.setattr(Replica, "_holders", lambda self: (self.me, *self.progress))


class Mutation(NamedTuple):
    patch: Patch
    scope: str
    steps_max: int  # The shortest way is no longer than this.


MUTATIONS = [
    Mutation(votes_come_back_by_arithmetic, "forget", 7),
    Mutation(any_readmission_heals, "repair-again", 4),
    Mutation(stand_in_with_everything, "modes", 5),
    Mutation(refusals_leave_no_trace, "proposals", 9),
    Mutation(vote_for_anybody, "repair", 5),
    Mutation(join_before_it_is_confirmed, "proposals", 5),
    Mutation(everybody_holds_the_seal, "seals", 2),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.patch.__name__)
def test_a_small_world_notices(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.patch(monkeypatch)
    found = SCOPES[mutation.scope].search(depth_max=mutation.steps_max)
    assert found.problem, f"{found.states} states without noticing {mutation.patch.__name__}"
    assert len(found.trace) <= mutation.steps_max
    assert found.story().splitlines()[-1] == f"=> {found.problem}"
