"""The table in the documentation is the one the code goes by."""

import re
from pathlib import Path

import pytest

from tidelog.errors import InvariantViolation
from tidelog.transactions.rules import ENDS, ENDS_WITH_EPOCH, End
from tidelog.transactions.states import BEFORE, BY_LABEL, TransactionState
from tidelog.transactions.transaction import Transaction
from unit.transactions.driver import ID

PAGE = Path(__file__).parents[3] / "docs" / "transactions.md"


def test_the_documented_transitions_are_those_there_are() -> None:
    section = PAGE.read_text().partition("## Transaction states")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| (\w+) \| ", section, re.MULTILINE)
    told = {(BY_LABEL[old], BY_LABEL[new]) for old, new in rows if old in BY_LABEL}
    assert told == {(old, new) for new, before in BEFORE.items() for old in before}


class TestTable:
    @pytest.mark.parametrize("old", list(TransactionState))
    @pytest.mark.parametrize("new", list(TransactionState))
    def test_only_what_stands_in_it_happens(self, old: TransactionState, new: TransactionState) -> None:
        transaction = Transaction(ID, 1, 0, 1000, old, frozenset(), -1, 0)
        if old in BEFORE[new]:
            assert transaction.to(new).state is new
        else:
            with pytest.raises(InvariantViolation):
                transaction.to(new)

    def test_labels_are_kafkas(self) -> None:
        assert list(BY_LABEL) == [
            "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
            "PrepareEpochFence",
        ]  # fmt: skip

    def test_an_end_never_turns_into_its_opposite(self) -> None:
        for (state, commits), end in ENDS.items():
            assert end is End.BEGINS or ("COMMIT" in state.name) == commits
        for (state, commits, _), end in ENDS_WITH_EPOCH.items():
            assert end is End.BEGINS or ("COMMIT" in state.name) == commits
