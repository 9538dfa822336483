"""What browsers are sent, from what was seen."""

from typing import Any

from tidelog.page.facts import Figures, Replicas
from tidelog.page.state import Builder, changes
from unit.page.seen import cluster, facts, partition

ALL = (1, 2, 3)


def test_a_healthy_cluster() -> None:
    state = Builder().build(facts(cluster(partition(1, ALL), partition(2, ALL))))
    assert state["cluster"]["level"] == "ok"
    assert state["cluster"]["counts"] == {
        "brokers": 3, "up": 3, "topics": 1, "internal": 0, "partitions": 2,
        "offline": 0, "below": 0, "under": 0,
    }  # fmt: skip
    assert (state["b/1"]["leads"], state["b/1"]["replicas"], state["b/1"]["controller"]) == (1, 2, "active")
    assert (state["b/3"]["leads"], state["b/3"]["controller"]) == (0, "voter")
    topic = state["t/orders"]
    assert (topic["mode"], topic["letter"], topic["level"]) == ("isr", "I", "ok")
    assert topic["partitions"][1] == [2, [1, 2, 3], [1, 2, 3], []]


def test_a_silent_broker_is_away_before_the_metadata_say_so() -> None:
    state = Builder().build(facts(cluster(partition(1, ALL), partition(2, ALL)), silent=frozenset({1})))
    assert state["b/1"]["state"] == "silent"
    assert state["t/orders"]["offline"] == 1
    assert state["t/orders"]["under"] == 2
    assert state["cluster"]["level"] == "bad"
    assert state["cluster"]["sentences"][0] == "1 partition has no leader: writes to them wait."
    assert "Broker 1 does not answer." in state["cluster"]["sentences"]
    assert (state["b/1"]["leads"], state["b/2"]["leads"]) == (0, 1)  # What it led counts as offline.


def test_without_an_active_controller_nothing_is_decided() -> None:
    state = Builder().build(facts(cluster(partition(2, ALL), active=-1)))
    assert not state["cluster"]["deciding"]
    silent = Builder().build(facts(cluster(partition(3, ALL)), silent=frozenset({1})))
    assert not silent["cluster"]["deciding"]  # The active one does not answer, and there is no other yet.
    assert silent["b/1"]["controller"] == "voter"
    alone = Builder().build(facts(cluster(partition(3, ALL)), silent=frozenset({2, 3})))
    assert alone["b/1"]["controller"] == "voter"  # It decides nothing without a majority.


def test_topics_and_partitions_count_the_same() -> None:
    seen = cluster(partition(1, ALL), topic="__consumer_offsets")
    counts = Builder().build(facts(seen))["cluster"]["counts"]
    assert (counts["topics"], counts["internal"], counts["partitions"]) == (1, 1, 1)


def test_too_few_replicas_for_acks_all() -> None:
    state = Builder().build(facts(cluster(partition(1, ALL, (1,)))))
    assert (state["t/orders"]["below"], state["t/orders"]["offline"]) == (1, 0)


def test_lag_is_of_followers_that_lack_records() -> None:
    seen = facts(cluster(partition(1, ALL, (1, 2))))
    seen.replicas = {
        1: Replicas(of_topics={"orders": {0: (100, 0)}}),
        3: Replicas(of_topics={"orders": {0: (60, 40), 7: (1, 1)}}),  # A partition 7 is not known (yet).
    }
    state = Builder().build(seen)
    assert state["l/orders"] == {"0": {"3": 40}}
    assert state["b/3"]["bytes"] == 61


def test_changes_are_the_keys_that_differ() -> None:
    builder, seen = Builder(), facts(cluster(partition(1, ALL)))
    before = builder.build(seen)
    assert changes(before, builder.build(seen)) == {}
    seen.figures[2] = Figures(cpu=0.5)
    after = builder.build(seen)
    assert changes(before, after).keys() == {"b/2"}
    seen.cluster = cluster()
    gone = changes(after, builder.build(seen))
    assert gone["t/orders"] is None
    assert gone["cluster"]["counts"]["partitions"] == 0


def test_what_is_derived_from_an_unchanged_topic_is_kept() -> None:
    builder, seen = Builder(), facts(cluster(partition(1, ALL)))
    before = builder.build(seen)["t/orders"]
    assert builder.build(seen)["t/orders"] is before
    seen.pulses = facts(None, silent=frozenset({3})).pulses
    assert builder.build(seen)["t/orders"] is not before


def test_before_a_broker_has_answered() -> None:
    found: dict[str, Any] = Builder().build(facts(None, silent=frozenset({1})))["cluster"]
    assert not found["seen"]
    assert found["sentences"] == ["No broker answers: it is gone."]


def test_a_user_who_may_not_describe_the_cluster_is_not_told_that_all_is_well() -> None:
    seen = facts(cluster(partition(1, ALL)))
    seen.replicas = {1: Replicas(refused=True)}
    state = Builder().build(seen)
    first, second = state["cluster"]["sentences"]
    assert first.startswith("Every replica that this user may see")
    assert "not all topics" in second
    assert (state["cluster"]["limited"], state["b/1"]["bytes"]) == (True, -1)
