"""What is checked about transactions and committed offsets can be broken, and is then noticed."""

import pytest

from tidelog.sim.checkers.offsets import CommittedOffsets
from tidelog.sim.checkers.transactions import Transaction, TransactionHistory, Value
from tidelog.sim.checkers.violation import Violation

NAME = "x"


def written(history: TransactionHistory, *values: bytes) -> Transaction:
    transaction = history.begin(NAME, (1, 0))
    for partition, value in enumerate(values):
        history.wrote(transaction, Value("t", partition, value))
    return transaction


def ended(history: TransactionHistory, transaction: Transaction, *, commit: bool) -> None:
    history.ending(transaction, commit=commit)
    history.ended(transaction, commit=commit)


@pytest.fixture
def history() -> TransactionHistory:
    found = TransactionHistory()
    found.taken_over(NAME, (1, 0))
    return found


def test_what_is_committed_and_seen_as_a_whole_is_fine(history: TransactionHistory) -> None:
    ended(history, written(history, b"a", b"b"), commit=True)
    ended(history, written(history, b"c"), commit=False)
    history.seen(b"a")
    history.seen(b"b")
    history.seen(b"of no transaction")
    history.check(given_up=())


def test_a_value_of_an_aborted_transaction_is_an_aborted_read(history: TransactionHistory) -> None:
    ended(history, written(history, b"a"), commit=False)
    with pytest.raises(Violation, match="aborted read"):
        history.seen(b"a")


def test_a_value_of_an_open_transaction_is_an_intermediate_read(history: TransactionHistory) -> None:
    written(history, b"a")
    with pytest.raises(Violation, match="intermediate read"):
        history.seen(b"a")


class TestWhereTheEndWasLost:
    """A client that keeps its epoch ends with its next transaction what hangs in the partition."""

    @pytest.fixture
    def history(self) -> TransactionHistory:
        found = TransactionHistory({("t", 0)})
        found.taken_over(NAME, (1, 0))
        return found

    def test_the_next_commit_may_commit_it(self, history: TransactionHistory) -> None:
        ended(history, written(history, b"a"), commit=False)
        ended(history, written(history, b"b"), commit=True)
        history.seen(b"a")
        history.check(given_up={("t", 0)})

    def test_so_may_one_whose_outcome_is_unknown(self, history: TransactionHistory) -> None:
        history.ending(written(history, b"a"), commit=False)
        history.ending(written(history, b"b"), commit=True)
        history.seen(b"a")

    def test_an_abort_may_not(self, history: TransactionHistory) -> None:
        ended(history, written(history, b"a"), commit=False)
        ended(history, written(history, b"b"), commit=False)
        with pytest.raises(Violation, match="aborted read"):
            history.seen(b"a")

    def test_nor_a_commit_before_it(self, history: TransactionHistory) -> None:
        ended(history, written(history, b"b"), commit=True)
        ended(history, written(history, b"a"), commit=False)
        with pytest.raises(Violation, match="aborted read"):
            history.seen(b"a")

    def test_nor_one_of_another_epoch(self, history: TransactionHistory) -> None:
        ended(history, written(history, b"a"), commit=False)
        following = history.begin(NAME, (1, 1))
        history.wrote(following, Value("t", 0, b"b"))
        ended(history, following, commit=True)
        with pytest.raises(Violation, match="aborted read"):
            history.seen(b"a")

    def test_nor_in_another_partition(self, history: TransactionHistory) -> None:
        ended(history, written(history, b"a", b"A"), commit=False)
        ended(history, written(history, b"b", b"B"), commit=True)
        with pytest.raises(Violation, match="aborted read"):
            history.seen(b"A")


def test_a_transaction_of_which_a_part_is_seen_is_torn(history: TransactionHistory) -> None:
    history.ending(written(history, b"a", b"b"), commit=True)  # Nobody heard how it ended.
    history.check(given_up=())
    history.seen(b"b")
    with pytest.raises(Violation, match="torn"):
        history.check(given_up=())
    history.check(given_up={("t", 0)})


def test_a_committed_transaction_that_is_not_seen_is_lost(history: TransactionHistory) -> None:
    ended(history, written(history, b"a", b"b"), commit=True)
    with pytest.raises(Violation, match="lost"):
        history.check(given_up=())


def test_who_was_replaced_must_not_commit(history: TransactionHistory) -> None:
    transaction = written(history, b"a")
    history.taken_over(NAME, (1, 1))
    with pytest.raises(Violation, match="zombie"):
        ended(history, transaction, commit=True)


def test_who_asked_before_it_was_replaced_may_be_heard(history: TransactionHistory) -> None:
    transaction = written(history, b"a")
    history.ending(transaction, commit=True)
    history.taken_over(NAME, (1, 1))
    history.ended(transaction, commit=True)


def test_a_committed_offset_is_the_last_one_acknowledged_or_one_asked_for_since() -> None:
    offsets = CommittedOffsets("g")
    offsets.found(-1, given_up=False)
    offsets.told(3, offsets.asked(3))
    offsets.asked(5)
    for offset in (3, 5):
        offsets.found(offset, given_up=False)
    with pytest.raises(Violation, match="went back"):
        offsets.found(-1, given_up=False)
    with pytest.raises(Violation, match="invented"):
        offsets.found(4, given_up=False)


def test_a_coordinator_that_lost_its_log_may_go_back_but_not_invent() -> None:
    offsets = CommittedOffsets("g")
    for offset in (3, 5):
        offsets.told(offset, offsets.asked(offset))
    offsets.found(3, given_up=True)
    with pytest.raises(Violation, match="invented"):
        offsets.found(9, given_up=True)


class TestCycles:
    def test_two_that_read_from_each_other(self) -> None:
        history = TransactionHistory()
        one, other = history.begin("x", (1, 0)), history.begin("y", (2, 0))
        for transaction, value in ((one, b"1"), (other, b"2")):
            history.taken_over(transaction.name, transaction.producer)
            history.wrote(transaction, Value("t", 0, value))
            history.ending(transaction, commit=True)
            history.ended(transaction, commit=True)
        history.read(one, b"2")
        history.check_cycles()
        history.read(other, b"1")
        with pytest.raises(Violation, match="circular"):
            history.check_cycles()
