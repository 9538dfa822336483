"""The consumer protocol rule by rule: joining, reconciling, fencing, static members, leaving, time."""

from typing import Any

import pytest

from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.consumer import heartbeats
from tidelog.groups.consumer.heartbeats import AWAY, JOIN, LEAVE, Heartbeat
from tidelog.groups.consumer.record_format import decode
from tidelog.groups.consumer.records import MemberState
from tidelog.groups.consumer.waits import WaitReason
from unit.groups.consumer.consumer_world import Client, World, settle, topic_id_of

T = topic_id_of("t")


def indexes(answer: Any, topic: str = "t") -> list[int]:
    return sorted(answer.assignment.get(topic_id_of(topic), ()))


def owned(*partitions: int) -> dict[Any, frozenset[int]]:
    return {T: frozenset(partitions)} if partitions else {}


# -- joining -------------------------------------------------------------------------------------------------


def test_the_first_member_gets_everything_at_once() -> None:
    world = World()
    answer = world.join("a")
    assert (answer.member_id, answer.epoch, indexes(answer)) == ("a", 1, [0, 1, 2, 3])
    assert world.group.state_name == "Stable"


def test_topics_that_are_not_there_are_waited_for() -> None:
    world = World({})
    assert indexes(world.join("a", "t")) == []
    world.set_topics(t=2)
    answer = world.beat("a", 1)
    assert (answer.epoch, indexes(answer)) == (2, [0, 1])


@pytest.mark.parametrize(
    "fields",
    [
        {"rebalance_timeout_ms": -1},
        {"owned": None},
        {"owned": {T: frozenset({1})}},
        {"topics": None},
        {"instance_id": ""},
        {"rack_id": ""},
        {"member_id": ""},
        {"member_id": "m" * 32_768},
        {"epoch": -3},
        {"epoch": AWAY},
    ],
)
def test_requests_that_make_no_sense(fields: dict[str, Any]) -> None:
    whole = {"member_id": "a", "epoch": JOIN, "rebalance_timeout_ms": 1, "topics": ("t",), "owned": {}}
    with pytest.raises(TidelogError) as refusal:
        heartbeats.check(Heartbeat(**{**whole, **fields}), 1, World().config)
    assert refusal.value.code == ErrorCode.INVALID_REQUEST


def test_version_0_lets_the_broker_choose_the_id() -> None:
    heartbeats.check(Heartbeat("", JOIN, rebalance_timeout_ms=1, topics=("t",), owned={}), 0, World().config)


def test_an_unknown_assignor() -> None:
    world = World(consumer_assignors="range")
    with pytest.raises(TidelogError) as refusal:
        world.join("a", assignor="uniform")
    assert refusal.value.code == ErrorCode.UNSUPPORTED_ASSIGNOR


def test_most_members_choose_the_assignor() -> None:
    world = World({"t": 2, "u": 2})
    settle([Client(world, name, "t", "u", assignor="range") for name in ("a", "b")])
    assert {owner for (_, index), owner in world.owners().items() if index == 0} == {"a"}


def test_a_full_group_takes_no_more() -> None:
    world = World(consumer_max_size=1)
    world.join("a", instance_id="i")
    assert world.refusal("b", JOIN, topics=("t",), owned={}, rebalance_timeout_ms=1) == (
        ErrorCode.GROUP_MAX_SIZE_REACHED
    )
    world.beat("a", AWAY, instance_id="i")
    assert world.join("b", instance_id="i").epoch == 1, "who takes a place over needs no new one"


# -- reconciling ---------------------------------------------------------------------------------------------


def test_nobody_gets_a_partition_before_the_other_has_confirmed() -> None:
    world = World()
    world.join("a")
    b = world.join("b")
    assert (b.epoch, indexes(b)) == (2, [])
    assert world.group.current("b").state is MemberState.UNRELEASED

    a = world.beat("a", 1)
    assert (a.epoch, len(indexes(a))) == (1, 2), "stays in its epoch, with what it may keep"
    assert world.group.current("a").state is MemberState.UNREVOKED
    assert world.beat("b", 2).assignment is None
    assert world.beat("a", 1, owned=owned(0, 1, 2, 3)).epoch == 1, "it still owns all"
    assert world.beat("a", 1).epoch == 1, "it does not say what it owns"

    kept = indexes(a)
    a = world.beat("a", 1, owned=owned(*kept))
    assert (a.epoch, a.assignment) == (2, None)
    b = world.beat("b", 2)
    assert sorted(indexes(b) + kept) == [0, 1, 2, 3]
    assert world.group.state_name == "Stable"


def test_the_states_of_a_group() -> None:
    world = World()
    assert world.group.state_name == "Empty"
    a, b = Client(world, "a"), Client(world, "b")
    settle([a, b])
    assert world.group.state_name == "Stable"
    b.leave()
    assert world.group.state_name == "Assigning"
    Client(world, "c").beat()
    assert world.group.state_name == "Reconciling"


def test_what_a_member_must_give_up_does_not_come_back_unconfirmed() -> None:
    world = World({"t": 2})
    world.join("a")
    world.join("b")
    kept = indexes(world.beat("a", 1))
    world.beat("b", LEAVE)
    answer = world.beat("a", 1, owned=owned(0, 1))
    assert (answer.epoch, indexes(answer)) == (1, kept), "both are its own again, but it may give one up"
    answer = world.beat("a", 1, owned=owned(*kept))
    assert indexes(answer) == [0, 1]


def test_a_member_that_leaves_frees_its_partitions_at_once() -> None:
    world = World()
    clients = [Client(world, name) for name in "ab"]
    settle(clients)
    clients[1].leave()
    answer = world.beat("a", clients[0].epoch)
    assert indexes(answer) == [0, 1, 2, 3]


def test_a_topic_that_grows_is_noticed_with_the_next_heartbeat() -> None:
    world = World({"t": 1})
    world.join("a")
    world.set_topics(t=3)
    assert indexes(world.beat("a", 1)) == [0, 1, 2]


def test_other_topics_are_nobodys_business() -> None:
    world = World()
    world.join("a")
    world.set_topics(other=9)
    assert world.beat("a", 1).epoch == 1


def test_a_topic_of_the_same_name_is_another_topic() -> None:
    world = World({"t": 1})
    client = Client(world, "a")
    settle([client])
    world.topics = world.topics.made_anew("t")
    settle([client])
    assert list(client.owned) == list(world.topics.topic_names)


def test_a_changed_subscription() -> None:
    world = World({"t": 1, "u": 1})
    world.join("a", "t")
    answer = world.beat("a", 1, topics=("u",), owned=owned(0))
    assert (answer.epoch, answer.assignment) == (1, {}), "t must go first"
    answer = world.beat("a", 1, owned={})
    assert (answer.epoch, indexes(answer, "u")) == (2, [0])


def test_the_same_topics_in_another_order_change_nothing() -> None:
    world = World({"t": 1, "u": 1})
    world.join("a", "t", "u")
    written = len(world.log)
    assert world.beat("a", 1, topics=("u", "t", "u")).epoch == 1
    assert len(world.log) == written


# -- answers -------------------------------------------------------------------------------------------------


def test_the_assignment_is_told_when_it_changed_or_was_asked_for() -> None:
    world = World()
    world.join("a")
    assert world.beat("a", 1).assignment is None
    assert world.beat("a", 1, owned=owned(0, 1, 2, 3)).assignment is None
    everything = {"rebalance_timeout_ms": 60_000, "topics": ("t",), "owned": owned(0, 1, 2, 3)}
    assert indexes(world.beat("a", 1, **everything)) == [0, 1, 2, 3]


def test_a_member_that_owns_what_it_must_give_up_is_told_again() -> None:
    """The answer that told it so was lost with its coordinator; it would be thrown out and never know why."""
    world = World()
    world.join("a")
    world.join("b")
    kept = indexes(world.beat("a", 1))
    world.group = world.replayed()
    heartbeats.resume(world.group, world.view)
    assert indexes(world.beat("a", 1, owned=owned(0, 1, 2, 3))) == kept
    assert world.beat("a", 1, owned=owned(*kept)).assignment is None


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    world = World()
    world.join("a")
    written = len(world.log)
    world.beat("a", 1)
    assert len(world.log) == written


def test_heartbeats_come_sooner_while_partitions_change_hands() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    settle([a, b])
    world.uptime_ms += 5000
    assert world.beat("a", a.epoch).heartbeat_interval_ms == 5000
    world.join("c")
    world.uptime_ms += 5000
    assert world.beat("a", a.epoch).heartbeat_interval_ms == 500


# -- fencing -------------------------------------------------------------------------------------------------


def test_strangers() -> None:
    world = World()
    world.join("a")
    assert world.refusal("b", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.refusal("b", LEAVE) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.refusal("a", 1, instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID


def test_epochs_that_are_not_current() -> None:
    world = World()
    world.join("a")
    world.join("b")
    assert world.refusal("a", 2) == ErrorCode.FENCED_MEMBER_EPOCH
    assert world.refusal("b", 1) == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_lost_answer_is_forgiven_when_the_member_owns_nothing_wrong() -> None:
    world = World({"t": 2})
    world.join("a")
    world.set_topics(t=3)
    world.beat("a", 1)  # epoch 2; the answer is lost
    assert world.refusal("a", 1) == ErrorCode.FENCED_MEMBER_EPOCH, "it must say what it owns"
    assert world.refusal("a", 1, owned=owned(0, 9)) == ErrorCode.FENCED_MEMBER_EPOCH
    everything = {"rebalance_timeout_ms": 60_000, "topics": ("t",), "owned": owned(0, 1)}
    answer = world.beat("a", 1, **everything)
    assert (answer.epoch, indexes(answer)) == (2, [0, 1, 2])
    world.set_topics(t=4)
    world.beat("a", 2)
    assert world.refusal("a", 1, owned=owned(0)) == ErrorCode.FENCED_MEMBER_EPOCH, "only one epoch back"


def test_a_fenced_member_joins_again_under_its_id() -> None:
    world = World()
    world.join("a")
    assert world.refusal("a", 7) == ErrorCode.FENCED_MEMBER_EPOCH
    answer = world.join("a")
    assert (answer.epoch, indexes(answer)) == (1, [0, 1, 2, 3])


# -- static members ------------------------------------------------------------------------------------------


def test_a_static_member_comes_back_to_what_it_had() -> None:
    world = World()
    clients = [Client(world, name, instance_id=f"i-{name}") for name in "ab"]
    settle(clients)
    had, epoch = clients[0].owned, world.group.epoch
    clients[0].leave(for_good=False)
    assert world.group.current("a").epoch == AWAY
    assert world.beat("b", clients[1].epoch).assignment is None
    clients[0].member_id = "a2"
    clients[0].beat()
    assert (clients[0].assigned, world.group.epoch) == (had, epoch)
    assert "a" not in world.group.members
    assert world.group.state_name == "Stable"


def test_a_place_that_is_taken() -> None:
    world = World()
    world.join("a", instance_id="i")
    whole = {"topics": ("t",), "owned": {}, "rebalance_timeout_ms": 1, "instance_id": "i"}
    assert world.refusal("b", JOIN, **whole) == ErrorCode.UNRELEASED_INSTANCE_ID
    assert world.refusal("b", 1, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    assert world.refusal("b", LEAVE, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    assert world.refusal("b", AWAY, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    assert world.refusal("a", JOIN, **whole) == ErrorCode.NONE, "the same process may join again"


def test_who_was_replaced_is_fenced() -> None:
    world = World()
    world.join("a", instance_id="i")
    world.beat("a", AWAY, instance_id="i")
    world.join("b", instance_id="i")
    assert world.refusal("a", 1, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    assert world.refusal("a", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_id_need_be_said_only_once() -> None:
    world = World()
    world.join("a", instance_id="i")
    assert world.beat("a", 1).epoch == 1
    assert world.group.instances == {"i": "a"}


def test_a_static_member_that_stays_away_loses_its_partitions() -> None:
    world = World()
    clients = [Client(world, name, instance_id=f"i-{name}") for name in "ab"]
    settle(clients)
    clients[0].leave(for_good=False)
    world.pass_ms(40_000)
    clients[1].beat()
    assert world.pass_ms(10_000) == {"a": WaitReason.HEARTBEAT}
    clients[1].beat()
    assert len(world.owners()) == 4
    assert set(world.owners().values()) == {"b"}


def test_a_static_member_can_leave_for_good() -> None:
    world = World()
    world.join("a", instance_id="i")
    world.beat("a", LEAVE, instance_id="i")
    assert world.group.state_name == "Empty"
    assert world.group.instances == {}


# -- leaving and time ----------------------------------------------------------------------------------------


def test_the_last_member_leaves_an_empty_group_that_can_be_joined_again() -> None:
    world = World()
    world.join("a")
    answer = world.beat("a", LEAVE)
    assert (answer.member_id, answer.epoch) == ("a", LEAVE)
    assert world.group.state_name == "Empty"
    assert world.group.everything() != [], "the epoch goes on"
    assert indexes(world.join("b")) == [0, 1, 2, 3]


def test_silence_ends_a_session() -> None:
    world = World()
    world.join("a")
    world.pass_ms(30_000)
    world.beat("a", 1)
    assert world.pass_ms(44_999) == {}
    assert world.pass_ms(1) == {"a": WaitReason.HEARTBEAT}
    assert world.refusal("a", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_may_have_timeouts_of_its_own() -> None:
    world = World()
    own = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}
    world.topics.group_configs["g"] = own
    world.join("a")
    world.pass_ms(30_000)
    assert world.beat("a", 1).heartbeat_interval_ms == 7000
    assert world.pass_ms(49_999) == {}
    assert world.pass_ms(1) == {"a": WaitReason.HEARTBEAT}


def test_a_member_that_gives_nothing_up_is_thrown_out() -> None:
    world = World()
    world.join("a", rebalance_timeout_ms=10_000)
    world.join("b")
    world.beat("a", 1)
    for _ in range(9):
        assert world.pass_ms(1_000) == {}
        world.beat("a", 1)
        world.beat("b", 2)
    assert world.pass_ms(1_000) == {"a": WaitReason.REVOCATION}
    assert indexes(world.beat("b", 2)) == [0, 1, 2, 3]


def test_a_member_that_gives_up_in_time_stays() -> None:
    world = World()
    clients = [Client(world, name) for name in "ab"]
    settle(clients)
    world.pass_ms(44_000)
    settle(clients, 1)
    assert world.pass_ms(20_000) == {}


def test_who_takes_a_group_over_waits_for_everybody_anew() -> None:
    world = World()
    world.join("a", rebalance_timeout_ms=1_000)
    world.join("b")
    world.beat("a", 1)
    world.group = world.replayed()
    heartbeats.resume(world.group, world.view)
    assert world.pass_ms(999) == {}
    assert world.pass_ms(1) == {"a": WaitReason.REVOCATION}
    assert world.pass_ms(44_000) == {"b": WaitReason.HEARTBEAT}


def test_many_members_become_stable_in_a_few_rounds() -> None:
    world = World({"t": 200})
    clients = [Client(world, f"m{number:02}") for number in range(50)]
    for client in clients:
        client.beat()
        client.take()
    settle(clients, 4)
    assert world.group.state_name == "Stable"
    assert sorted(len(client.owned[T]) for client in clients) == [4] * 50


# -- the log -------------------------------------------------------------------------------------------------


def test_tombstones_take_the_group_out_of_the_log() -> None:
    world = World()
    world.join("a", regex="t.*")
    world.log += [decode(key, value)[1] for key, value in world.group.tombstones()]
    assert world.replayed().everything() == []
