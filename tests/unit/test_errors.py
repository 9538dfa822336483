"""Error codes are Kafka's: the numbers, the names, and which of them a client may retry."""

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from tidelog.errors import (
    CorruptBatch,
    ErrorCode,
    InvalidConfig,
    InvalidRequest,
    InvariantViolation,
    OffsetOutOfRange,
    StorageError,
    TidelogError,
)
from tidelog.invariant import invariant


def test_numbers_and_names_are_kafkas() -> None:
    ours = {code.name.lower(): code.value for code in ErrorCode}
    assert ours == {code.name: code.value for code in KioErrorCode}


def test_what_may_be_retried_is_what_kafka_says() -> None:
    ours = {code.name.lower() for code in ErrorCode if code.retriable}
    assert ours == {code.name for code in KioErrorCode if code.retriable}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (TidelogError, ErrorCode.UNKNOWN_SERVER_ERROR),
        (StorageError, ErrorCode.KAFKA_STORAGE_ERROR),
        (CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
        (OffsetOutOfRange, ErrorCode.OFFSET_OUT_OF_RANGE),
        (InvalidConfig, ErrorCode.INVALID_CONFIG),
        (InvalidRequest, ErrorCode.INVALID_REQUEST),
        (InvariantViolation, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_every_refusal_has_a_code_and_a_sentence(kind: type[TidelogError], code: ErrorCode) -> None:
    refusal = kind("why it was refused")
    assert (refusal.code, refusal.message, str(refusal)) == (code, "why it was refused", "why it was refused")
    other = kind("why", ErrorCode.POLICY_VIOLATION)
    assert (other.code, kind("again").code) == (ErrorCode.POLICY_VIOLATION, code)


def test_invariants() -> None:
    invariant(True, "fine", object())
    with pytest.raises(InvariantViolation, match=r"offsets only rise 5 'x'"):
        invariant(False, "offsets only rise", 5, "x")
