"""Transactions, as their producers and the readers of committed records see them.

Of Jepsen's list: *aborted read* (G1a: a value of a transaction that was aborted), *intermediate read* (G1b: a
value of one that nobody has asked to commit yet); and *torn* (of one transaction some values are seen and
others are not), *lost* (a committed one is not seen) and *zombie* (somebody commits after another one has
taken over its transactional id). Write cycles (G0) are no promise: as in Kafka, transactions of different
producers may lie in another order in every partition.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from tidelog.sim.checkers.violation import Violation


class Value(NamedTuple):
    topic: str
    partition: int
    value: bytes


class Transaction:
    """``outcome``: what its producer was told; None: nothing, so either may be true."""

    __slots__ = ("commit_asked", "instance", "name", "outcome", "overtaken", "values")

    def __init__(self, name: str, instance: int) -> None:
        self.name = name
        self.instance = instance  # which of the producers that have used the transactional id
        self.values: list[Value] = []
        self.commit_asked = False
        self.overtaken = False  # another instance had taken over when this one asked to commit
        self.outcome: bool | None = None

    def __str__(self) -> str:
        return f"transaction of {self.name} with {[each.value.decode() for each in self.values]}"


class TransactionHistory:
    def __init__(self) -> None:
        self._all: list[Transaction] = []
        self._by_value: dict[bytes, Transaction] = {}
        self._newest: dict[str, int] = {}  # transactional id → the instance that took over last
        self._seen: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._all)

    def begin(self, name: str, instance: int) -> Transaction:
        self._all.append(Transaction(name, instance))
        return self._all[-1]

    def wrote(self, transaction: Transaction, value: Value) -> None:
        transaction.values.append(value)
        self._by_value[value.value] = transaction

    def taken_over(self, name: str, instance: int) -> None:
        self._newest[name] = instance

    def ending(self, transaction: Transaction, *, commit: bool) -> None:
        transaction.commit_asked = commit
        transaction.overtaken = self._newest.get(transaction.name) != transaction.instance

    def ended(self, transaction: Transaction, *, commit: bool) -> None:
        if commit and transaction.overtaken:
            raise Violation(f"zombie, {transaction} was committed after another producer had taken over")
        transaction.outcome = commit

    def seen(self, value: bytes) -> None:
        """A reader of committed records got this one."""
        transaction = self._by_value.get(value)
        if transaction is None:
            return
        self._seen.add(value)
        if transaction.outcome is False:
            raise Violation(f"aborted read, {value!r} of the {transaction}")
        if not transaction.commit_asked:
            raise Violation(f"intermediate read, {value!r} of the {transaction}, which is open")

    def check(self, given_up: Collection[tuple[str, int]]) -> None:
        """When readers have seen everything. ``given_up``: partitions of which records may be gone."""
        for transaction in self._all:
            wanted = [each for each in transaction.values if (each.topic, each.partition) not in given_up]
            seen = [each for each in wanted if each.value in self._seen]
            if transaction.outcome is not False and 0 < len(seen) < len(wanted):
                raise Violation(f"torn, of the {transaction} only {_shown(seen)} can be seen")
            if transaction.outcome and len(seen) < len(wanted):
                raise Violation(f"lost, the {transaction} was committed and cannot be seen")


def _shown(values: Iterable[Value]) -> list[str]:
    return [f"{each.value.decode()} in {each.topic}-{each.partition}" for each in values]
