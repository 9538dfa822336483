"""The simulator can find bugs: each mutation breaks one rule, and some seed must notice within a bounded
number.

A checker that catches no mutation is not finished; a mutation that nobody catches shows a rule without a
guard.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidelog.errors import InvariantViolation
from tidelog.replication.effects import Truncate
from tidelog.replication.election import Election, SaveBallot, State
from tidelog.replication.hosted import Hosted
from tidelog.replication.policies.isr import IsrPolicy
from tidelog.replication.policies.quorum import QuorumPolicy
from tidelog.replication.replica import Replica
from tidelog.replication.view import YES
from tidelog.sim.checkers import Violation
from tidelog.sim.run import run

MAX_SEEDS = {"quorum": 60, "isr": 12}

Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def vote_before_sync(patch: pytest.MonkeyPatch) -> None:
    """The ballot is written, but nobody waits for it."""
    original = Hosted._save

    def save(self: Hosted, ballot: Any) -> None:
        original(self, ballot)
        self._saving = False

    patch.setattr(Hosted, "_save", save)


def forget_the_ballot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hosted, "_save", lambda self, ballot: None)


def vote_for_anybody(patch: pytest.MonkeyPatch) -> None:
    """Whether the candidate's log is complete does not matter."""

    def grant(self: Election, ask: Any, tail: Any) -> bool:
        free = self.voted_for in (-1, ask.candidate)
        return bool(ask.epoch >= self.epoch and self.leader == -1 and free)

    def would_elect(self: Election, ask: Any, now_ms: int, tail: Any) -> bool:
        return bool(ask.epoch >= self.epoch and not self._hears_leader(now_ms))

    patch.setattr(Election, "_grant", grant)
    patch.setattr(Election, "_would_elect", would_elect)


def vote_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Election,
        "_grant",
        lambda self, ask, tail: ask.epoch >= self.epoch and self.leader == -1 and ask.tail >= tail,
    )


def count_unsynced_copies(patch: pytest.MonkeyPatch) -> None:
    """Followers fetch on, and so acknowledge, before their disk has the records."""
    patch.setattr(Hosted, "may_fetch", property(lambda self: not self.closed and self.log.failure is None))
    patch.setattr(Replica, "durable_end_offset", property(lambda self: self.log.end_offset))


def commit_with_one_copy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QuorumPolicy, "committed", lambda self, view: view.durable_end_offset)


def acknowledge_before_commit(patch: pytest.MonkeyPatch) -> None:
    for policy in (QuorumPolicy, IsrPolicy):
        patch.setattr(policy, "acknowledged", lambda self, view, end_offset, acks: YES)


def truncate_to_the_watermark(patch: pytest.MonkeyPatch) -> None:
    """What Kafka did before leader epochs: a follower drops everything above its watermark and trusts the
    rest.
    """

    def diverged(self: Replica, epoch: int, parts: Any, *, unclean: bool = False) -> Any:
        return []

    def follow(self: Replica, *args: Any) -> Any:
        effects = original(self, *args)
        return [*effects, Truncate(max(self.high_watermark, self.log.start_offset))]

    original = Replica.follow
    patch.setattr(Replica, "diverged", diverged)
    patch.setattr(Replica, "_divergence", lambda self, offset, last_epoch: None)
    patch.setattr(Replica, "follow", follow)


def ignore_divergence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "_divergence", lambda self, offset, last_epoch: None)


MUTATIONS: list[tuple[str, Patch]] = [
    ("quorum", forget_the_ballot),
    ("quorum", vote_before_sync),
    ("quorum", vote_for_anybody),
    ("quorum", vote_twice),
    ("quorum", count_unsynced_copies),
    ("quorum", commit_with_one_copy),
    ("quorum", acknowledge_before_commit),
    ("quorum", truncate_to_the_watermark),
    ("quorum", ignore_divergence),
    ("isr", ignore_divergence),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("mode", "mutation"), MUTATIONS, ids=lambda value: getattr(value, "__name__", value))
def test_a_seed_notices(mode: str, mutation: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    for seed in range(MAX_SEEDS[mode]):
        try:
            run(mode, seed)
        except (Violation, InvariantViolation):
            return
        except Exception as error:
            # A broken rule may also show as a crash of the code under test; that counts, if it is one of
            # ours.
            if isinstance(error, AssertionError):
                return
            raise
    pytest.fail(f"{MAX_SEEDS[mode]} seeds ran without noticing {mutation.__name__}")


def test_the_state_table_is_complete() -> None:
    """Every state an election can be in is described, so that the docs' table and the code cannot part."""
    from tidelog.replication import election

    for state in State:
        assert state.value in (election.__doc__ or "")
    assert SaveBallot.__name__ in (election.__doc__ or "")
