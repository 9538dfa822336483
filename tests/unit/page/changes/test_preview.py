"""What a change would mean, by the planner."""

import pytest

from tidelog.page.changes.preview import preview
from tidelog.page.changes.wishes import (
    DEFAULT,
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    Drain,
    Move,
    Produce,
    Promote,
    Unclear,
)
from tidelog.page.facts import Facts
from unit.page.seen import cluster, facts, partition


def three(**settings: str) -> Facts:
    return facts(cluster(partition(1, (1, 2, 3)), partition(2, (2, 3, 1))), frozenset(), **settings)


def test_a_new_topic() -> None:
    found = preview(three(), CreateTopic("new", 4, DEFAULT, {"replication.mode": "quorum"}))
    assert found.words == "Topic new is created with 4 partitions."
    assert "when it is on 2 of 3 replicas and synced to disk there" in found.after[0]
    assert found.before == ()


def test_a_new_topic_without_enough_brokers_promises_nothing_yet() -> None:
    """The cluster itself refuses it, in its own words."""
    assert preview(three(), CreateTopic("new", 1, 5, {})).after == ()


def test_a_name_that_is_taken() -> None:
    with pytest.raises(Unclear, match="already"):
        preview(three(), CreateTopic("orders", 1, 3, {}))


def test_another_mode_compares_both_promises() -> None:
    found = preview(
        three(replication_mode="quorum", flush_messages="1"),
        AlterTopic("orders", {"replication.mode": "primary-backup", "min.insync.replicas": "1"}, DEFAULT),
    )
    assert found.before != found.after
    assert any("failures tolerated for writes: 1 before, 0 after" in each for each in found.weaker)


def test_a_setting_without_a_promise_compares_nothing() -> None:
    found = preview(three(), AlterTopic("orders", {"retention.ms": None}, DEFAULT))
    assert found.words == "Of topic orders, retention.ms goes back to its default."
    assert (found.before, found.after, found.weaker) == ((), (), ())


@pytest.mark.parametrize("settings", [{"replication.mode": "magic"}, {"min.insync.replicas": "many"}])
def test_a_value_that_is_none(settings: dict[str, str | None]) -> None:
    with pytest.raises(Unclear):
        preview(three(), AlterTopic("orders", settings, DEFAULT))


def test_partitions_only_grow() -> None:
    assert "instead of 2" in preview(three(), AlterTopic("orders", {}, 3)).words
    with pytest.raises(Unclear, match="only be more"):
        preview(three(), AlterTopic("orders", {}, 2))


def test_deleting_is_never_harmless() -> None:
    seen = three()
    seen.ends["orders"] = {0: 1200, 1: 34}
    found = preview(seen, DeleteTopic("orders"))
    assert "up to 1,234 records" in found.words
    assert found.weaker


def test_a_move_to_fewer_brokers_promises_less() -> None:
    found = preview(three(), Move("orders", 0, (1, 2)))
    assert any("failures tolerated for writes" in each for each in found.weaker)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Move("orders", 0, (1, 9)), "There is no broker 9"),
        (Move("orders", 0, (1, 2, 3)), "there already"),
        (Move("orders", 7, (1,)), "no such partition"),
        (Move("gone", 0, (1,)), "no such topic"),
        (Promote("orders", 0, 1), "leads already"),
        (Promote("orders", 0, 9), "has no replica"),
        (Drain(9, False), "There is no broker 9"),
    ],
)
def test_what_makes_no_sense(change: Move | Promote | Drain, words: str) -> None:
    with pytest.raises(Unclear, match=words):
        preview(three(), change)


def test_no_promotion_while_records_may_be_lost() -> None:
    seen = facts(cluster(partition(-1, (1, 2, 3))), frozenset({1}), replication_mode="primary-backup")
    with pytest.raises(Unclear, match="says what would be lost"):
        preview(seen, Promote("orders", 0, 2))


def test_a_drain_warns_where_a_stop_would_hurt() -> None:
    found = preview(three(replication_mode="primary-backup"), Drain(1, False))
    assert "The 1 partition that broker 1 leads" in found.words
    assert "writes stop in orders-0" in found.weaker[0]


def test_a_message_names_its_partition() -> None:
    assert "partition 3" in preview(three(), Produce("orders", 3, None, "x", ())).words


def test_a_preview_for_kafka_does_not_promise_what_tidelog_does() -> None:
    seen = three()
    seen.settings = {
        topic: {name: each for name, each in values.items() if name != "replication.mode"}
        for topic, values in seen.settings.items()
    }
    found = preview(seen, AlterTopic("orders", {"min.insync.replicas": "1"}, DEFAULT))
    assert any("Two more deaths stop reads" in each for each in found.before)
    assert not any("Three more deaths stop reads" in each for each in found.after)
    assert any("Two more deaths stop reads" in each for each in found.after)
