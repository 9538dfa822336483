"""The records of ``__transaction_state``, byte for byte."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import StorageError
from tidelog.transactions.records import TransactionRecord, decode, key_of, record_of, tombstone
from tidelog.transactions.states import TransactionState
from tidelog.transactions.transaction import Transaction, last_epoch_of
from tidelog.types import TopicPartition


def test_golden_empty() -> None:
    transaction = Transaction("ab", 7, 1, 60_000, TransactionState.EMPTY, frozenset(), -1, 0x1234)
    assert record_of(transaction) == (
        bytes.fromhex("0000 0002 6162"),
        bytes.fromhex("0001 0000000000000007 0001 0000ea60 00 00 0000000000001234 ffffffffffffffff 00"),
    )


def test_golden_ongoing_with_all_tags() -> None:
    partitions = frozenset({TopicPartition("t", 3), TopicPartition("t", 1), TopicPartition("s", 0)})
    transaction = Transaction(
        "ab", 7, 1, 60_000, TransactionState.ONGOING, partitions, 5, 6,
        previous_producer_id=8, next_producer_id=9, client_version=2,
    )  # fmt: skip
    _, value = record_of(transaction)
    assert value == bytes.fromhex(
        "0001 0000000000000007 0001 0000ea60 01"
        "03 02 73 02 00000000 00 02 74 03 00000001 00000003 00"
        "0000000000000006 0000000000000005"
        "03 00 08 0000000000000008 01 08 0000000000000009 02 02 0002"
    )


def test_version_0_is_read() -> None:
    value = bytes.fromhex(
        "0000 0000000000000007 0001 0000ea60 01 00000001 0001 74 00000001 00000003"
        "0000000000000006 0000000000000005"
    )
    assert decode(key_of("ab"), value) == TransactionRecord(
        "ab",
        Transaction("ab", 7, 1, 60_000, TransactionState.ONGOING, frozenset({TopicPartition("t", 3)}), 5, 6),
    )


def test_a_tombstone() -> None:
    assert decode(*tombstone("ab")) == TransactionRecord("ab", None)


def test_kinds_of_newer_brokers_are_passed_over() -> None:
    assert decode(bytes.fromhex("0001 0002 6162"), b"") is None
    assert decode(None, b"x") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("00", "00"),
        ("0000", "00"),
        ("0000 0000", "00"),
        ("0000 0009 61", "00"),
        ("0000 0001 61", "00"),
        ("0000 0001 61", "0002 00"),
        ("0000 0001 61", "0001 0000000000000007 0001 0000ea60 09 00 0000000000001234 ffffffffffffffff 00"),
        ("0000 0001 61", "0001 0000000000000007 0001 0000ea60 00 ff 0000000000001234"),
    ],
)
def test_what_makes_no_sense_is_refused(key: str, value: str) -> None:
    with pytest.raises(StorageError):
        decode(bytes.fromhex(key), bytes.fromhex(value))


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(value: bytes) -> None:
    with contextlib.suppress(StorageError):
        decode(key_of("ab"), value)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
numbers = st.integers(-1, (1 << 63) - 1)


@given(
    st.builds(
        Transaction,
        names,
        st.integers(0, 1 << 62),
        st.integers(0, 32_767),
        st.integers(1, (1 << 31) - 1),
        st.sampled_from(
            [
                state
                for state in TransactionState
                if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
            ]
        ),
        st.frozensets(st.builds(TopicPartition, names, st.integers(0, 9)), max_size=5),
        numbers,
        numbers,
        numbers,
        numbers,
        client_version=st.integers(0, 2),
    )
)
def test_there_and_back(transaction: Transaction) -> None:
    if transaction.state is TransactionState.EMPTY:
        transaction = transaction._replace(partitions=frozenset())
    last_epoch = last_epoch_of(transaction.state, transaction.epoch, transaction.client_version)
    record = decode(*record_of(transaction))
    assert record == TransactionRecord(
        transaction.transactional_id, transaction._replace(last_epoch=last_epoch)
    )
