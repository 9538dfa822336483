"""A read waits for the writes that came before it on its connection; writes of one kind do not."""

from tidelog.broker.registry import SERVED
from tidelog.protocol import messages, produce
from tidelog.runtime.write_order import PIPELINED, WRITES, WriteOrder

OFFSET_COMMIT, OFFSET_FETCH, CREATE_TOPICS, METADATA = 8, 9, 19, 3
READS = {
    "fetch", "list_offsets", "metadata", "offset_fetch", "find_coordinator", "api_versions",
    "offset_for_leader_epoch", "describe_groups", "list_groups", "describe_configs", "describe_log_dirs",
    "describe_producers", "describe_transactions", "list_transactions", "describe_cluster", "describe_quorum",
    "describe_topic_partitions", "list_partition_reassignments", "consumer_group_describe",
    # They wait for other members, and what they change is in their own answer.
    "join_group", "sync_group", "heartbeat",
    # Between nodes, which recognise answers by their number.
    "allocate_producer_ids",
}  # fmt: skip


def test_every_api_is_a_read_or_a_write() -> None:
    served = {messages.name_of(key) for key in SERVED}
    writes = {messages.name_of(key) for key in WRITES}
    assert served - writes == READS & served
    assert len(writes) == 24


def test_a_read_waits_until_the_last_write_is_answered() -> None:
    order = WriteOrder()
    assert not order.holds_back(OFFSET_FETCH)
    assert order.began(OFFSET_COMMIT)
    assert order.began(OFFSET_COMMIT)
    assert order.holds_back(OFFSET_FETCH)
    assert not order.ended()
    assert order.holds_back(OFFSET_FETCH)
    assert order.ended()
    assert not order.holds_back(OFFSET_FETCH)


def test_reads_hold_nobody_back() -> None:
    order = WriteOrder()
    assert not order.began(METADATA)
    assert not order.holds_back(produce.API_KEY)


def test_only_some_writes_are_pipelined() -> None:
    for api_key in WRITES:
        order = WriteOrder()
        order.began(api_key)
        assert order.holds_back(api_key) == (api_key not in PIPELINED)
        assert order.holds_back(CREATE_TOPICS)
