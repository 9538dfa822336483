"""Batches whose records must be looked at: in a thread where that takes long, and in order all the same."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from interop.wire import parse_response
from tidelog.broker.partitions.validation import AppendRules, is_costly
from tidelog.broker.requests.request import RequestContext
from tidelog.config import TopicConfig
from tidelog.errors import ErrorCode
from tidelog.protocol import batch as batches
from tidelog.protocol.records import RECORDS_PER_PACE, validate_records
from unit.broker.fakes import FakeBroker, records, request_body

MANY = 1_000


@dataclass
class Asker:
    """What a connection is told."""

    told: list[str] = field(default_factory=list)

    def hold(self) -> None:
        self.told.append("hold")

    def resume(self) -> None:
        self.told.append("resume")

    def close(self, reason: str) -> None:
        self.told.append(reason)


def keyed(count: int, codec: str = "none", missing: int = -1) -> bytes:
    keys = [None if each == missing else b"%d" % each for each in range(count)]
    return records(*[b"v"] * count, keys=keys, codec=codec)


def rules(**settings: Any) -> AppendRules:
    return AppendRules.of(TopicConfig(**settings))


@pytest.mark.parametrize(
    ("batch", "settings", "costly"),
    [
        (keyed(MANY), {}, False),
        (keyed(MANY, "zstd"), {}, False),
        (keyed(MANY), {"cleanup_policy": frozenset({"compact"})}, True),
        (keyed(10), {"cleanup_policy": frozenset({"compact"})}, False),
        (keyed(10, "zstd"), {"cleanup_policy": frozenset({"compact"})}, True),
        (keyed(10), {"compression_type": "gzip"}, False),
        (keyed(10_000), {"compression_type": "gzip"}, True),
        (keyed(10, "zstd"), {"compression_type": "gzip"}, True),
        (keyed(MANY, "gzip"), {"compression_type": "gzip"}, False),
        (keyed(MANY), {"message_timestamp_before_max_ms": 1000}, True),
        (b"short", {"cleanup_policy": frozenset({"compact"})}, False),
    ],
)
def test_what_is_costly(batch: bytes, settings: dict[str, Any], costly: bool) -> None:
    found = rules(**settings)
    assert is_costly(memoryview(batch), found) == costly
    assert found.opens or not costly


def produce(broker: FakeBroker, asker: Asker, batch: bytes, acks: int = -1) -> list[Any]:
    whole = broker.producing.handle
    broker.producing.handle = partial(whole, asker=asker)  # type: ignore[method-assign]
    try:
        return broker.produce(("t", 0, batch), acks=acks)
    finally:
        broker.producing.handle = whole  # type: ignore[method-assign]


def error_of(sent: list[Any]) -> int:
    (answer,) = sent
    return int(answer.responses[0].partition_responses[0].error_code)


def test_a_costly_batch_is_opened_elsewhere_and_its_connection_waits() -> None:
    broker, asker = FakeBroker(), Asker()
    broker.create("t", cleanup_policy="compact")
    broker.services.held = True
    sent = produce(broker, asker, keyed(MANY, "zstd"))
    broker.services.settle()
    assert asker.told == ["hold"]
    assert not sent
    broker.services.held = False
    broker.services.settle()
    assert asker.told == ["hold", "resume"]
    assert error_of(sent) == 0
    assert broker.partition("t").log.end_offset == MANY
    assert broker.producing.opening.batches == 1


def test_a_refusal_is_the_batchs_own() -> None:
    broker, asker = FakeBroker(), Asker()
    broker.create("t", cleanup_policy="compact")
    sent = produce(broker, asker, keyed(MANY, missing=777))
    broker.services.settle()
    assert error_of(sent) == ErrorCode.INVALID_RECORD
    assert asker.told == ["hold", "resume"]
    assert broker.partition("t").log.end_offset == 0


def test_without_an_answer_a_refusal_closes_the_connection() -> None:
    broker, asker = FakeBroker(), Asker()
    broker.create("t", cleanup_policy="compact")
    produce(broker, asker, keyed(MANY, missing=777), acks=0)
    broker.services.settle()
    assert asker.told == ["hold", "records sent with acks=0 were refused: INVALID_RECORD", "resume"]


def test_it_is_recompressed_there_as_well() -> None:
    broker, asker = FakeBroker(), Asker()
    broker.create("t", compression_type="gzip")
    sent = produce(broker, asker, keyed(MANY, "zstd"))
    broker.services.settle()
    assert error_of(sent) == 0
    log = broker.partition("t").log
    stored = log.read(0, 1 << 20, log.end_offset, at_least_one_batch=True).read()
    assert stored[22] & 7 == 1  # gzip
    assert validate_records(stored).first_missing_key is None


def doubtful(batch: bytes, **changes: int) -> bytes:
    """A batch whose header says something else than its records."""
    data = bytearray(batch)
    header = batches.parse_header(data)
    payload = bytes(data[batches.HEADER_SIZE :])
    fields = {
        "base_offset": 0,
        "last_offset_delta": header.last_offset_delta,
        "count": header.count,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
    }
    return bytes(batches.build(payload, **fields | changes))


def test_doubtful_records_are_opened_elsewhere_where_they_are_many() -> None:
    """A hostile batch of a megabyte would hold everybody else up for a tenth of a second."""
    broker, asker = FakeBroker(), Asker()
    broker.create("t")
    broker.services.held = True
    sent = produce(broker, asker, doubtful(keyed(MANY), count=MANY - 1, last_offset_delta=MANY - 2))
    broker.services.settle()
    assert asker.told == ["hold"]
    assert not sent
    broker.services.held = False
    broker.services.settle()
    assert asker.told == ["hold", "resume"]
    assert error_of(sent) == ErrorCode.INVALID_RECORD
    assert broker.partition("t").log.end_offset == 0


def test_a_false_largest_timestamp_of_many_records_is_put_right() -> None:
    broker, asker = FakeBroker(), Asker()
    broker.create("t")
    batch = keyed(MANY)
    newest = batches.parse_header(batch).max_timestamp
    sent = produce(broker, asker, doubtful(batch, max_timestamp=newest + 5))
    broker.services.settle()
    assert asker.told == ["hold", "resume"]
    assert error_of(sent) == 0
    log = broker.partition("t").log
    stored = log.read(0, 1 << 20, log.end_offset, at_least_one_batch=True).read()
    assert batches.check(stored).max_timestamp == newest


def test_few_doubtful_records_are_opened_at_once() -> None:
    broker, asker = FakeBroker(), Asker()
    broker.create("t")
    sent = produce(broker, asker, doubtful(keyed(10), count=9, last_offset_delta=8))
    broker.services.settle()
    assert not asker.told
    assert error_of(sent) == ErrorCode.INVALID_RECORD


def test_of_several_batches_only_the_doubtful_ones_are_opened() -> None:
    broker = FakeBroker()
    broker.create("t", partitions=3)
    lie = doubtful(keyed(MANY), count=MANY - 1, last_offset_delta=MANY - 2)
    sent = broker.produce(("t", 0, keyed(MANY)), ("t", 1, lie), ("t", 2, keyed(MANY)))
    broker.services.settle()
    (answer,) = sent
    errors = [each.error_code for each in answer.responses[0].partition_responses]
    assert errors == [0, ErrorCode.INVALID_RECORD, 0]
    assert [broker.partition("t", index).log.end_offset for index in range(3)] == [MANY, 0, MANY]
    assert broker.producing.opening.batches == 1


def test_a_batch_that_is_cheap_waits_for_nobody() -> None:
    broker, asker = FakeBroker(), Asker()
    broker.create("t", cleanup_policy="compact")
    sent = produce(broker, asker, keyed(10))
    broker.services.settle()
    assert error_of(sent) == 0
    assert not asker.told
    assert not broker.producing.opening.batches


def test_rules_that_changed_meanwhile_count() -> None:
    broker, asker = FakeBroker(), Asker()
    broker.create("t", compression_type="gzip")
    broker.services.held = True
    sent = produce(broker, asker, keyed(MANY, "zstd", missing=5))
    partition = broker.partition("t")
    config = TopicConfig(cleanup_policy=frozenset({"compact"}))
    partition.reconfigure(config, partition.replica.limits)
    broker.services.held = False
    broker.services.settle()
    assert error_of(sent) == ErrorCode.INVALID_RECORD


def test_by_rules_that_changed_meanwhile_it_is_opened_elsewhere_as_well() -> None:
    broker, asker = FakeBroker(), Asker()
    broker.create("t", compression_type="gzip")
    partition = broker.partition("t")
    broker.services.held = True
    sent = produce(broker, asker, keyed(MANY, "zstd"))
    work, done = broker.services._offloaded.popleft()
    found = work()
    partition.reconfigure(TopicConfig(compression_type="gzip", retention_ms=5), partition.replica.limits)
    partition.reconfigure(TopicConfig(cleanup_policy=frozenset({"compact"})), partition.replica.limits)
    done(found)
    assert not sent
    assert len(broker.services._offloaded) == 1
    broker.services.held = False
    broker.services.settle()
    assert error_of(sent) == 0
    assert asker.told == ["hold", "hold", "resume"]
    assert broker.producing.opening.batches == 2


def test_other_settings_that_changed_meanwhile_do_not_matter() -> None:
    broker, asker = FakeBroker(), Asker()
    broker.create("t", compression_type="gzip")
    partition = broker.partition("t")
    broker.services.held = True
    sent = produce(broker, asker, keyed(MANY, "zstd"))
    partition.reconfigure(TopicConfig(compression_type="gzip", retention_ms=5), partition.replica.limits)
    broker.services.held = False
    broker.services.settle()
    assert error_of(sent) == 0
    assert broker.producing.opening.batches == 1


def test_a_topic_that_was_deleted_meanwhile_takes_nothing() -> None:
    broker, asker = FakeBroker(), Asker()
    broker.create("t", cleanup_policy="compact")
    broker.services.held = True
    sent = produce(broker, asker, keyed(MANY, "zstd"))
    broker.call("delete_topics", topics=[{"name": "t", "topic_id": None}])
    broker.services.held = False
    broker.services.settle()
    assert error_of(sent) in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def test_the_thread_gives_way() -> None:
    pauses: list[None] = []
    validate_records(keyed(4 * RECORDS_PER_PACE), pace=lambda: pauses.append(None))
    assert len(pauses) == 4


@pytest.mark.parametrize("transactional_id", [None, "id"])
@pytest.mark.parametrize("settings", [{}, {"cleanup_policy": "compact"}])
def test_batches_for_one_partition_keep_their_order(
    settings: dict[str, str], transactional_id: str | None
) -> None:
    """The first must be opened, the second need not be."""
    broker, asker, sent = FakeBroker(), Asker(), list[Any]()
    broker.create("t", partitions=2, **settings)
    newest = batches.parse_header(keyed(MANY)).max_timestamp
    first = doubtful(keyed(MANY), max_timestamp=newest + 5)
    parts = [(0, first), (0, keyed(1)), (1, keyed(1)), (0, first)]
    data = [{"name": "t", "partition_data": [{"index": index, "records": each} for index, each in parts]}]
    fields = {"transactional_id": transactional_id, "acks": -1, "timeout": 30_000, "topic_data": data}
    broker.producing.handle(
        memoryview(bytearray(request_body(0, 11, fields))),
        0,
        RequestContext(0, 11, 7, "test", "peer"),
        lambda frame: sent.append(parse_response(bytes(frame or b"")[4:], "produce", 11, 7)),
        asker,
    )
    broker.services.settle()
    rows = sent[0].responses[0].partition_responses
    assert [(row.index, row.error_code, row.base_offset) for row in rows] == [
        (0, 0, 0),
        (0, 0, MANY),
        (1, 0, 0),
        (0, 0, MANY + 1),
    ]
    assert asker.told.count("hold") == asker.told.count("resume") > 0
