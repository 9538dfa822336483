"""The metadata log's decisions as sentences."""

from typing import Any

from tidelog.page.past import Past, losses

Record = dict[str, Any]


def started(broker: int) -> Record:
    return {"type": "broker-registered", "broker_id": broker, "fenced": True}


def fencing(broker: int, *, fenced: bool) -> Record:
    return {"type": "broker-fencing-changed", "broker_id": broker, "fenced": fenced}


def created(name: str, *assignments: list[int]) -> Record:
    return {"type": "topic-created", "name": name, "topic": name, "assignments": list(assignments)}


def partition(topic: str, index: int, leader: int, in_sync: list[int], epoch: int, **more: Any) -> Record:
    known = {"topic": topic, "partition": index, "leader": leader, "leader_epoch": epoch, "in_sync": in_sync}
    return {"type": "partition-changed", **known, **more}


def texts(*decisions: list[Record], whole: bool = True, epochs: tuple[int, ...] = ()) -> list[str]:
    rows = [
        [offset, 1000 + offset, epochs[offset] if epochs else 1, each]
        for offset, each in enumerate(decisions)
    ]
    answer = {"decisions": rows, "next": len(rows), "whole": whole}
    return [each.event.text for each in Past().take(answer)]


def test_a_failover() -> None:
    assert texts(
        [started(1)],
        [fencing(1, fenced=False)],
        [created("orders", [1, 2], [1, 2])],
        [
            partition("orders", 0, 2, [2], 1),  # Within a decision the order does not matter.
            fencing(1, fenced=True),
            partition("orders", 1, 2, [2], 1),
        ],
        [started(1)],
    ) == [
        "Broker 1 joined the cluster.",
        "Broker 1 has a session with the controllers.",
        "Topic orders was created with 2 partitions.",
        "Broker 1 was fenced: its session with the controllers ended, so it leads nothing.",
        "Broker 2 took over orders (all 2 partitions) from broker 1, because broker 1 is down.",
        "The in-sync set of orders (all 2 partitions) lost broker 1, which is down.",
        "Broker 1 was started.",
    ]


def test_decisions_of_the_same_millisecond_share_an_event() -> None:
    rows = [
        [0, 1000, 1, [created("orders", [1, 2], [1, 2])]],
        [1, 1000, 1, [partition("orders", 0, 1, [1], 0)]],
        [2, 1000, 1, [partition("orders", 1, 1, [1], 0)]],
        [3, 1001, 1, [partition("orders", 0, 1, [1, 2], 0)]],
    ]
    assert [each.event.text for each in Past().take({"decisions": rows, "whole": True})] == [
        "Topic orders was created with 2 partitions.",
        "The in-sync set of orders (all 2 partitions) lost broker 2, which did not keep up.",
        "Broker 2 caught up and is in the in-sync set of orders-0.",
    ]


def test_an_unclean_election() -> None:
    unclean = partition("orders", 0, 2, [2], 2, unclean=True)
    assert texts([created("orders", [1, 2])], [partition("orders", 0, -1, [1], 1)], [unclean])[-1] == (
        "Broker 2 was elected uncleanly for orders-0: what only others had committed is given up."
    )


def test_a_log_that_begins_in_the_middle() -> None:
    """The first word about a partition is no change, and nobody joined who may have been there before."""
    found = [partition("orders", 3, 2, [2], 7)], [started(2)], [partition("orders", 3, 1, [1, 2], 8)]
    assert texts(*found, whole=False) == [
        "Broker 2 was started.",
        "Broker 1 took over orders-3 from broker 2, because broker 2 is down.",
        "Broker 1 caught up and is in the in-sync set of orders-3.",
    ]


def test_topics_whose_name_is_forgotten_are_left_out() -> None:
    gone = (
        [partition("", 0, 1, [1], 1)],
        [partition("", 0, 2, [2], 2)],
        [{"type": "topic-deleted", "topic": ""}],
    )
    assert texts(*gone) == []


def test_settings_and_another_controller() -> None:
    change = {"type": "topic-config-changed", "topic": "orders"}
    assert texts(
        [created("orders", [1])],
        [change | {"changes": {"replication.mode": "quorum", "flush.messages": None}}],
        epochs=(1, 2),
    ) == [
        "Topic orders was created with 1 partition.",
        "Another controller became active (epoch 2).",
        "replication.mode of orders was set to quorum.",
        "flush.messages of orders was set back to its default.",
    ]


def test_what_is_new_in_a_later_version_is_passed_over() -> None:
    assert texts([{"type": "take", "anything": 1}, {"type": "_decision"}]) == []


def test_records_that_were_given_up_since_the_last_look() -> None:
    found = losses({"orders-0": 3}, {"orders-0": 5, "pay-ments-1": 1, "same-2": 0})
    assert [(each.text, each.topic) for each in found] == [
        ("orders-0: 2 records were given up for those of another leader.", "orders"),
        ("pay-ments-1: 1 record was given up for those of another leader.", "pay-ments"),
    ]
