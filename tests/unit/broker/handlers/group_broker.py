"""A broker that coordinates groups."""

from typing import Any

from unit.broker.fakes import FakeBroker

OFFSETS = "__consumer_offsets"


def group_broker() -> FakeBroker:
    """A broker that coordinates, with one topic of two partitions."""
    broker = FakeBroker(
        offsets_topic_num_partitions=3,
        group_initial_rebalance_delay_ms=100,
        offsets_retention_check_interval_ms=6 * 3_600_000,
    )
    broker.create("t", 2)
    broker.call("find_coordinator", key_type=0, coordinator_keys=["g"])
    return broker


def commit(
    broker: FakeBroker, version: int = 9, topics: list[dict[str, Any]] | None = None, **more: Any
) -> Any:
    partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 2}
    fields = {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "retention_time": -1,
        "topics": topics or [{"name": "t", "partitions": [{**partition, "committed_metadata": "m"}]}],
        **more,
    }
    return broker.call("offset_commit", version, **fields)
