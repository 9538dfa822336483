"""The form of a stream's position in checkpoints."""

from tidelog.spark.reading.positions import Position, from_wire, to_wire
from tidelog.types import TopicPartition

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 3)


def test_there_and_back() -> None:
    position = Position({ORDERS: 23, BILLS: 7}, {"orders": "id-1"})
    wire = to_wire(position)
    assert wire == {"bills": {"3": 7}, "orders": {"0": 23}, "@topicIds": {"orders": "id-1"}}
    assert from_wire(wire) == position


def test_a_checkpoint_of_sparks_own_source() -> None:
    assert from_wire({"orders": {"0": 23}}) == Position({ORDERS: 23})
    assert to_wire(Position({ORDERS: 23})) == {"orders": {"0": 23}}
    assert from_wire(None) == Position()


def test_an_id_of_a_topic_without_offsets_is_not_written() -> None:
    assert to_wire(Position({ORDERS: 1}, {"bills": "id"})) == {"orders": {"0": 1}}


def test_a_topic_was_created_again_only_if_both_ids_are_known() -> None:
    before = Position({}, {"orders": "1", "bills": "2"})
    assert before.others_than(Position({}, {"orders": "9"})) == ["orders"]
    assert Position().others_than(before) == []


def test_positions_of_deleted_topics_are_dropped_and_later_ones_replace_earlier() -> None:
    position = Position({ORDERS: 23, BILLS: 7}, {"orders": "1", "bills": "2"})
    assert position.without(["orders"]) == Position({BILLS: 7}, {"bills": "2"})
    assert position.followed_by({ORDERS: 0}, {"orders": "9"}) == Position(
        {ORDERS: 0, BILLS: 7}, {"orders": "9", "bills": "2"}
    )
