"""Which records of a refused batch are wrong."""

import pytest

from tidelog.broker.partitions import wrong_records
from tidelog.broker.partitions.wrong_records import NO_KEY, RecordLimits, refusal_of
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol import batch as batches
from tidelog.protocol.codecs import Codec
from tidelog.protocol.records import Record, encode_batch

LIMITS = RecordLimits(needs_keys=True, oldest_ms=100, newest_ms=200)


def refusal(rows: list[tuple[bytes | None, int]], codec: Codec = Codec.NONE) -> TidelogError | None:
    data = encode_batch([Record(at, time, key, b"v") for at, (key, time) in enumerate(rows)], codec=codec)
    return refusal_of(memoryview(data), batches.check(data), LIMITS, lambda: None)


@pytest.mark.parametrize("codec", list(Codec))
def test_nothing_is_wrong(codec: Codec) -> None:
    assert refusal([(b"k", 100), (b"", 200), (b"k", -1)], codec) is None


@pytest.mark.parametrize("codec", list(Codec))
def test_a_wrong_time_gives_the_batch_its_code(codec: Codec) -> None:
    found = refusal([(None, 150), (b"k", 99), (b"k", 150), (None, 99), (b"k", 201)], codec)
    assert found is not None
    assert found.code is ErrorCode.INVALID_TIMESTAMP
    assert [each.number for each in found.records] == [0, 1, 3, 4]
    assert found.records[0].message == found.records[2].message == NO_KEY
    assert "99 is too far in the past" in found.records[1].message
    assert "201 is too far in the future" in found.records[3].message


def test_the_message_of_the_batch_shows_the_first_few() -> None:
    found = refusal([(None, 150)] * 5)
    assert found is not None
    assert found.code is ErrorCode.INVALID_RECORD
    shown = "; ".join(f"record {number}: {NO_KEY}" for number in range(3))
    assert found.message == f"5 of the batch's 5 records are refused ({shown}; …)"


def test_a_response_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrong_records, "NAMED_MAX", 2)
    found = refusal([(b"k", 150), (None, 150), (None, 150), (None, 150)])
    assert found is not None
    assert [each.number for each in found.records] == [1, 2]
    assert found.message.startswith("at least 2 of the batch's 4 records are refused")


def test_a_thread_gives_way() -> None:
    paced = []
    data = encode_batch([Record(at, 150, b"k", b"v") for at in range(1000)])
    refusal_of(memoryview(data), batches.check(data), LIMITS, lambda: paced.append(1))
    assert len(paced) == 4
