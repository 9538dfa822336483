"""What is done when."""

import pytest

from tidelog.lab.experiment.catalog import builtin
from tidelog.lab.experiment.model import Experiment, FaultStep, LoadSpec, Phase, TopicSpec
from tidelog.lab.experiment.parties import Casting
from tidelog.lab.promise import Hit
from tidelog.lab.run.schedule import (
    Action,
    actions,
    estimate_s,
    expanded,
    longest_pause_s,
    planned_hits,
    stretched,
    versions_of,
)
from tidelog.planner.outages import CLIENTS

NOW = Casting((1, 2, 3), 2, (3, 1), 1, (1, 2, 3))


def experiment(*steps: FaultStep, lasts: float = 8.0) -> Experiment:
    return Experiment(name="x", title="t", timeline=steps, lasts=lasts)


def test_what_has_no_end_is_healed_at_the_end() -> None:
    found = actions(experiment(FaultStep(at=1, fault="kill"), FaultStep(at=2, fault="freeze", lasts=3)))
    assert found == [
        Action(1, 0, heals=False),
        Action(2, 1, heals=False),
        Action(5, 1, heals=True),
        Action(8.0, 0, heals=True),
    ]


def test_a_moment_needs_no_healing() -> None:
    assert actions(experiment(FaultStep(at=1, fault="restart"))) == [Action(1, 0, heals=False)]


def test_healing_comes_before_a_fault_at_the_same_moment() -> None:
    found = actions(
        experiment(FaultStep(at=0, fault="kill", lasts=2), FaultStep(at=2, fault="kill", lasts=2))
    )
    assert [action.heals for action in found] == [False, True, False, True]


def test_phases_are_experiments_of_their_own() -> None:
    step = FaultStep(at=0, fault="kill")
    whole = Experiment(
        name="x", title="t", phases=(Phase(name="p", title="first", lasts=3, timeline=(step,)),)
    )
    (one,) = expanded(whole)
    assert (one.name, one.title, one.lasts, one.timeline, one.phases) == ("x: p", "first", 3, (step,), ())


def test_a_target_that_notices_later_gets_longer_faults() -> None:
    one = experiment(FaultStep(at=1, fault="freeze", lasts=3.5), lasts=7)
    assert stretched(one, 1.5) == one
    longer = stretched(one, 9.0)  # (9 + 2) / (1.5 + 2)
    assert longer.lasts == 22
    assert (longer.timeline[0].at, longer.timeline[0].lasts) == (11 / 3.5, 11)


def test_planned_hits_name_brokers() -> None:
    steps = (
        FaultStep(at=0, fault="kill", on="leader+follower", lasts=2),
        FaultStep(at=1, fault="cut", between=("leader", "all+clients")),
        FaultStep(at=3, fault="restart", on="1"),
    )
    assert planned_hits(experiment(*steps), NOW) == [
        Hit("kill", (2, 3), (), 2, 0, 2),
        Hit("cut", (2,), (1, 3, CLIENTS), 2, 1, 8.0),
        Hit("restart", (1,), (), 2, 3, 3),
    ]


def test_more_rounds_take_longer() -> None:
    assert estimate_s(experiment()) < estimate_s(Experiment(name="x", title="t", rounds=9))


def test_a_target_that_does_not_notice_the_end_of_a_process_gets_time_for_it() -> None:
    killed = builtin("leader-killed")
    longer = stretched(killed, 9.0, notices_ends=False)
    assert longer.lasts == pytest.approx(11.0)  # as long as the bound: session and margin
    frozen = builtin("leader-frozen")
    assert stretched(frozen, 9.0, notices_ends=False) == stretched(frozen, 9.0)


def test_a_topic_that_the_timeline_changes_has_several_versions() -> None:
    topic = TopicSpec(name="t", settings={"min.insync.replicas": "2", "flush.messages": "1"})
    steps = (
        FaultStep(at=0, fault="change-settings", parameters={"settings": "min.insync.replicas=1"}),
        FaultStep(at=1, fault="change-mode", parameters={"mode": "quorum"}),
        FaultStep(at=2, fault="change-mode", topic="other", parameters={"mode": "primary-backup"}),
    )
    changing = Experiment(name="x", title="t", topics=(topic, TopicSpec(name="other")), timeline=steps)
    first, second, third = versions_of(changing, topic)
    assert first == topic
    assert second.settings["min.insync.replicas"] == "1" and second.mode == "isr"
    assert (third.mode, third.settings) == ("quorum", {"flush.messages": "1"})
    assert [each.mode for each in versions_of(changing, changing.topics[1])] == ["isr", "primary-backup"]


def test_a_slow_load_writes_to_each_partition_now_and_then() -> None:
    slow = Experiment(
        name="x",
        title="t",
        topics=(TopicSpec(name="t", partitions=50),),
        loads=(LoadSpec(topic="t", rate=1), LoadSpec(topic="t", rate=0)),
    )
    assert longest_pause_s(slow) == 50
