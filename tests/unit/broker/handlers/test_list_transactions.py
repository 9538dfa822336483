"""ListTransactions: patterns of clients, which must not keep the broker busy."""

from typing import Any

import pytest

from tidelog.broker.handlers import list_transactions
from tidelog.errors import ErrorCode
from unit.broker.fakes import FakeBroker

LONG = "a" * 40 + "!"


@pytest.fixture
def transacting() -> FakeBroker:
    broker = FakeBroker(transaction_state_log_num_partitions=2)
    broker.call("find_coordinator", key_type=1, coordinator_keys=["t"])
    for name in (LONG, "orders-1", "orders-2", "other"):
        begun = broker.call("init_producer_id", transactional_id=name, transaction_timeout=60_000,
                            producer_id=-1, producer_epoch=-1)  # fmt: skip
        assert begun.error_code == 0
    return broker


def listed(broker: FakeBroker, **filters: Any) -> set[str]:
    answer = broker.call("list_transactions", 2, **filters)
    assert answer.error_code == 0
    return {each.transactional_id for each in answer.transaction_states}


def test_a_pattern_matches_whole_ids(transacting: FakeBroker) -> None:
    assert listed(transacting, transactional_id_pattern="orders-.") == {"orders-1", "orders-2"}
    assert listed(transacting, transactional_id_pattern="orders") == set()
    assert listed(transacting, transactional_id_pattern="") == {LONG, "orders-1", "orders-2", "other"}


def test_a_pattern_that_would_keep_python_busy_for_ever(transacting: FakeBroker) -> None:
    """One such request stopped the broker."""
    assert listed(transacting, transactional_id_pattern="(a|a)*(a|a)*x") == set()


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "(" * 8000 + ")" * 8000, "(a?){1000}b"])
def test_invalid_and_large_patterns_are_refused(transacting: FakeBroker, pattern: str) -> None:
    answer = transacting.call("list_transactions", 2, transactional_id_pattern=pattern)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_ids_are_looked_at_in_slices(transacting: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_transactions, "LOOKED_AT_PER_SLICE", 3)
    pending = transacting.begin("list_transactions", 2)
    assert not pending.is_complete
    transacting.services.settle()
    assert pending.is_complete
