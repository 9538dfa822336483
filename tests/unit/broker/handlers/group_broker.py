"""A broker that coordinates groups."""

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
