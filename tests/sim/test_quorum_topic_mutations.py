"""The seeds of topics whose replicas vote can find bugs: each mutation breaks one rule, for topics only (the
controllers vote by the same code, and would be noticed first), and one of a bounded number of seeds, or a
story, must notice.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from noticing import notice

from tidelog.broker.metadata.opening import METADATA_KEY
from tidelog.broker.quorum import partitions as quorum_partitions
from tidelog.broker.quorum import voters as quorum_voters
from tidelog.broker.quorum.partitions import QuorumPartitions
from tidelog.errors import CorruptBatch
from tidelog.log import reading
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.election import Election
from tidelog.replication.policies.quorum import QuorumPolicy
from tidelog.replication.view import YES
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.plan import ProducerPlan
from tidelog.sim.stories import quorum_topics as stories
from tidelog.sim.telling import StoryFailed

MAX_SEEDS = 12

Patch = Callable[[pytest.MonkeyPatch], None]


def _of_topic(election: Election) -> bool:
    return election.timing.founding_ms == 0


def _is_topic(view: Any) -> bool:
    return "__cluster_metadata" not in view.log.directory


# --- votes --------------------------------------------------------------------------------------------------


def vote_for_anybody(patch: pytest.MonkeyPatch) -> None:
    """Whether the candidate's log is complete does not matter."""
    original = Election.vote_requested

    def vote_requested(self: Election, request: Any, now_ms: int, chance: float, tail: Any) -> Any:
        if _of_topic(self):
            request = request._replace(tail=max(request.tail, tail))
        return original(self, request, now_ms, chance, tail)

    patch.setattr(Election, "vote_requested", vote_requested)


# --- commits ------------------------------------------------------------------------------------------------


def majority_off_by_one(patch: pytest.MonkeyPatch) -> None:
    original = QuorumPolicy.committed

    def committed(self: QuorumPolicy, view: Any) -> int:
        if not _is_topic(view):
            return original(self, view)
        held = sorted((view.durable_end_offset, *(each.end_offset for each in view.progress.values())))
        candidate = held[-(len(view.replicas) // 2)]
        return int(candidate if candidate > view.epoch_start_offset else view.high_watermark)

    patch.setattr(QuorumPolicy, "committed", committed)


def count_unsynced_copies(patch: pytest.MonkeyPatch) -> None:
    """A leader counts its own copy before the disk has it, and a follower acknowledges so."""
    original = ReplicaDriver.may_fetch.fget  # type: ignore[attr-defined]
    patch.setattr(
        ReplicaDriver,
        "may_fetch",
        property(lambda self: original(self) if self.key == METADATA_KEY else not self.closed),
    )


def acknowledge_before_commit(patch: pytest.MonkeyPatch) -> None:
    original = QuorumPolicy.acknowledged

    def acknowledged(self: QuorumPolicy, view: Any, end_offset: int, acks: int) -> Any:
        return YES if _is_topic(view) else original(self, view, end_offset, acks)

    patch.setattr(QuorumPolicy, "acknowledged", acknowledged)


class Mutation(NamedTuple):
    patch: Patch
    wanted: dict[str, Any] = {}  # noqa: RUF012 - what the seeds are about; never changed


ALL_ACKS = tuple(ProducerPlan(number % 3, -1, True) for number in range(6))
OFTEN = {"pace_ms": (50, 400), "producers": ALL_ACKS}
VOTES = {**OFTEN, "faults": ("kill", "power", "cut")}

MUTATIONS = [
    Mutation(vote_for_anybody, VOTES),
    Mutation(majority_off_by_one),
    Mutation(count_unsynced_copies, {**OFTEN, "faults": ("power",)}),
    Mutation(acknowledge_before_commit),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.patch.__name__)
def test_a_seed_notices(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.patch(monkeypatch)
    notice("quorum", mutation.patch.__name__, MAX_SEEDS, mutation.wanted)


# --- what only stories notice: nothing is lost, but the promise is broken -----------------------------------


def never_step_down(patch: pytest.MonkeyPatch) -> None:
    """A leader without a majority goes on taking records that it can never acknowledge."""
    original = Election.hears_majority

    def hears_majority(self: Election, within_ms: int, now_ms: int) -> bool:
        return _of_topic(self) or original(self, within_ms, now_ms)

    patch.setattr(Election, "hears_majority", hears_majority)


def tell_nobody(patch: pytest.MonkeyPatch) -> None:
    """The controllers never hear who was elected."""
    patch.setattr(QuorumPartitions, "_tell_controller", lambda self, key: None)


def vote_with_an_empty_disk(patch: pytest.MonkeyPatch) -> None:
    """Who lost its disk votes as if nothing had happened."""
    for module in (quorum_partitions, quorum_voters):
        patch.setattr(module, "forgot", lambda partition, voters, replica: False)


def serve_unchecked(patch: pytest.MonkeyPatch) -> None:
    """What was found on disk is sent as it is."""
    patch.setattr(reading, "verify_read", lambda *place, **how: (None, 0))


@pytest.mark.parametrize(
    ("mutate", "story"),
    [
        (never_step_down, stories.both_followers_killed),
        (tell_nobody, stories.controllers_majority_killed),
        (vote_with_an_empty_disk, stories.leader_loses_its_disk),
        (serve_unchecked, stories.flipped_bit),
    ],
    ids=lambda each: each.__name__,
)
def test_a_story_notices(mutate: Patch, story: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    with pytest.raises((StoryFailed, Violation, CorruptBatch)):
        story()
