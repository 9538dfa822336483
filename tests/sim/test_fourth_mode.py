"""Where a fourth mode goes: a policy, a succession, and a row in each table that ARCHITECTURE.md lists.

``all-replicas``: a record is committed when every assigned replica holds it, and the first replica that is
whole and alive leads. It stops taking writes with the first failure, so it is no mode to offer; it is here to
show that the core asks no mode what it is.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidelog.cli.app import app
from tidelog.config import modes as settings
from tidelog.config.modes import ISR
from tidelog.controller import successions
from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.image import PartitionImage
from tidelog.controller.successions import Succession, isr, mode_changes
from tidelog.controller.successions.mode_changes import Step
from tidelog.controller.successions.steps import Rules, led_by
from tidelog.errors import ErrorCode
from tidelog.planner import promises
from tidelog.replication import modes as replication
from tidelog.replication.attachments.successors import Successors
from tidelog.replication.modes import Mode
from tidelog.replication.policies.policy import Policy
from tidelog.replication.view import WAIT, YES, Refuse, Verdict, View
from tidelog.sim import plan
from tidelog.sim.checkers import Violation
from tidelog.sim.checkers.promises import PROMISES
from tidelog.sim.checkers.promises.isr import IsrPromise
from tidelog.sim.plan import CHANGES, ModePlan
from tidelog.sim.run import run

ALL = "all-replicas"


class AllReplicasPolicy(Policy):
    """Committed is what everybody holds."""

    tracks_in_sync = True
    last_member_decides = True

    def committed(self, view: View) -> int:
        smallest = view.durable_end_offset
        for follower in view.progress.values():
            if not follower.seen:
                return view.high_watermark
            smallest = min(smallest, follower.end_offset)
        return smallest

    def commits_alone(self, view: View) -> bool:
        return len(view.replicas) == 1

    def before_append(self, view: View, acks: int) -> Refuse | None:
        return Refuse(ErrorCode.NOT_ENOUGH_REPLICAS) if _is_one_missing(view) else None

    def acknowledged(self, view: View, end_offset: int, acks: int) -> Verdict:
        if view.high_watermark >= end_offset:
            return YES
        return Refuse(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND) if _is_one_missing(view) else WAIT


def _is_one_missing(view: View) -> bool:
    return len(view.in_sync) < len(view.replicas)


def next_state(partition: PartitionImage, available: BrokerAvailability, rules: Rules) -> PartitionImage:
    """As in ``isr`` with a minimum of all replicas; but the first member leads."""
    assigned = isr.next_state(partition, available, _strict(partition, rules))
    if assigned.leader not in assigned.in_sync:
        return assigned
    ready = [member for member in assigned.replicas if member in assigned.in_sync]
    first = next((member for member in ready if member in available.willing), assigned.leader)
    return led_by(assigned, first, assigned.in_sync, assigned.eligible)


def force(partition: PartitionImage, available: BrokerAvailability, rules: Rules) -> PartitionImage:
    return next_state(partition, available, rules._replace(unclean_allowed=True))


def with_members(partition: PartitionImage, members: tuple[int, ...], rules: Rules) -> PartitionImage:
    return isr.with_members(partition, members, _strict(partition, rules))


def _strict(partition: PartitionImage, rules: Rules) -> Rules:
    return rules._replace(min_in_sync=len(partition.replicas))


def _all_in_sync(partition: PartitionImage, available: BrokerAvailability) -> str | None:
    """Until then, the first replica may lack what was committed."""
    if partition.is_moving or set(partition.in_sync) != set(partition.replicas):
        return "all replicas in sync"
    return None


def _a_leader(partition: PartitionImage, available: BrokerAvailability) -> str | None:
    return None if partition.leader in partition.in_sync and not partition.is_moving else "a leader"


class AllReplicasPromise(IsrPromise):
    """Whatever acks a producer asks for, an acknowledgement means all replicas."""

    def is_safe(self, acks: int) -> bool:
        return acks != 0


@pytest.fixture
def fourth(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Everything that makes a mode."""
    row = monkeypatch.setitem
    # What the product does.
    row(replication.MODES, ALL, Mode(AllReplicasPolicy(), successors=Successors))
    row(successions.BY_MODE, ALL, Succession(next_state, force, with_members))
    row(mode_changes.STEPS, (ISR, ALL), Step("all are in sync", _all_in_sync, lambda each: each.leader))
    row(mode_changes.STEPS, (ALL, ISR), Step("there is a leader", _a_leader, lambda each: each.leader))
    # What its settings mean, and what it promises.
    row(settings.WITHOUT_MEANING, ALL, {"min.insync.replicas": "an acknowledgement means all replicas"})
    row(settings.DEFAULTS, ALL, {})
    row(settings.LEAST_REPLICAS, ALL, 1)
    row(settings.COPIES, ALL, max)
    row(promises.RULES, ALL, promises.RULES[ISR]._replace(writes_continue=lambda terms, dead: not dead))
    # What the simulator draws for it and checks.
    row(plan.BY_MODE, ALL, ModePlan(lambda drawn: {}, lambda chance, replicas: {}, _draw))
    row(PROMISES, ALL, AllReplicasPromise)
    yield ALL


def _draw(chance: Any, drawn: plan.Plan) -> plan.Plan:
    return drawn._replace(unclean=False)


def test_commands_know_it(fourth: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        app(["modes", "--json"])
    assert fourth in [each["name"] for each in json.loads(capsys.readouterr().out)]
    assert promises.by_hand(fourth) == "elect --unclean"


@pytest.mark.parametrize("seed", range(6))
def test_it_keeps_what_it_acknowledges(fourth: str, seed: int) -> None:
    result = run(fourth, seed)
    assert result.acknowledged > 0
    assert result.faults


def test_topics_come_to_it_and_leave_it(fourth: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[str, str]] = []

    def noted(way: tuple[str, str]) -> Callable[[PartitionImage], int]:
        def leader(partition: PartitionImage) -> int:
            taken.append(way)
            return partition.leader

        return leader

    for way in [way for way in mode_changes.STEPS if fourth in way]:
        step = mode_changes.STEPS[way]._replace(leader=noted(way))
        monkeypatch.setitem(mode_changes.STEPS, way, step)
    for seed in range(3):
        assert run(CHANGES, seed).acknowledged > 0
    assert set(taken) == {(ISR, fourth), (fourth, ISR)}


def test_the_checkers_see_a_leader_that_commits_alone(fourth: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AllReplicasPolicy, "committed", lambda self, view: view.durable_end_offset)
    with pytest.raises(Violation):
        for seed in range(6):
            run(fourth, seed)
