"""Transactions, as their producers and ``read_committed`` readers see them.

Of Jepsen's list: *aborted read* (G1a: a value of an aborted transaction), *intermediate read* (G1b: a value
of one whose commit was not requested yet); and *torn* (some values of one transaction are seen and others are
not), *lost* (a committed one is not seen) and *zombie* (a commit after another producer has taken over the
transactional id). Transactions also read what others wrote: *circular information flow* (G1c) means that of
two committed ones each has read from the other, directly or through others. Write cycles (G0) are not a
promise: as in Kafka, transactions of different producers may have another order in every partition.

Where a partition has lost the end of a transaction, a client that keeps its epoch ends it there with its next
transaction, as the documentation says (*hanging transactions*). Such a value may be seen although its
transaction was aborted: only if the partition has given up records, and only if a later transaction with the
same id and epoch wrote to the same partition and requested its commit.
"""

from collections.abc import Callable, Collection, Iterable, Set
from typing import NamedTuple

from tidelog.sim.checkers.sent_offsets import SentOffsets
from tidelog.sim.checkers.violation import Violation

Producer = tuple[int, int]
"""(producer id, epoch): a later producer has a greater one."""


class Value(NamedTuple):
    topic: str
    partition: int
    value: bytes


class Transaction:
    """``outcome``: the response to its producer; None: none, so either may be true."""

    __slots__ = ("commit_asked", "name", "outcome", "overtaken", "producer", "read_from", "values")

    def __init__(self, name: str, producer: Producer) -> None:
        self.name = name
        self.producer = producer
        self.values: list[Value] = []
        self.read_from: set[Transaction] = set()
        self.commit_asked = False
        self.overtaken = False  # another producer had taken over before this one requested the commit
        self.outcome: bool | None = None

    def __str__(self) -> str:
        return f"transaction of {self.name} with {[each.value.decode() for each in self.values]}"


class TransactionHistory:
    def __init__(self, given_up: Set[tuple[str, int]] = frozenset()) -> None:
        """``given_up``: partitions that may have lost records. Others add to it."""
        self._given_up = given_up
        self._all: list[Transaction] = []
        self._by_value: dict[bytes, Transaction] = {}
        self._newest: dict[str, Producer] = {}  # transactional id → its newest producer
        self._seen: set[bytes] = set()
        self._offsets: dict[str, SentOffsets] = {}  # by transactional id
        # The coordinators' own log was given up: it is unknown which producers were fenced and what has
        # ended.
        self.void = False

    def __len__(self) -> int:
        return len(self._all)

    def begin(self, name: str, producer: Producer) -> Transaction:
        self._all.append(Transaction(name, producer))
        return self._all[-1]

    def wrote(self, transaction: Transaction, value: Value) -> None:
        transaction.values.append(value)
        self._by_value[value.value] = transaction

    def taken_over(self, name: str, producer: Producer) -> None:
        """A producer got the transactional id. The response may arrive after that of a successor."""
        self._newest[name] = max(producer, self._newest.get(name, producer))

    def is_newest(self, name: str, producer: Producer) -> bool:
        return self._newest.get(name) == producer

    def offsets(self, name: str) -> SentOffsets:
        """That the producers with this transactional id send."""
        if name not in self._offsets:
            self._offsets[name] = SentOffsets(name)
        return self._offsets[name]

    def ending(self, transaction: Transaction, *, commit: bool) -> None:
        transaction.commit_asked = commit
        transaction.overtaken = self._newest[transaction.name] > transaction.producer

    def ended(self, transaction: Transaction, *, commit: bool) -> None:
        if commit and transaction.overtaken and not self.void:
            raise Violation(f"zombie, {transaction} was committed after another producer had taken over")
        transaction.outcome = commit

    def seen(self, value: bytes) -> None:
        """A ``read_committed`` reader got this one."""
        transaction = self._by_value.get(value)
        if transaction is None or self.void:
            return
        self._seen.add(value)
        if transaction.commit_asked and transaction.outcome is not False:
            return
        if self._may_be_ended_by_the_next(transaction, value):
            return
        if transaction.outcome is False:
            raise Violation(f"aborted read, {value!r} of the {transaction}")
        raise Violation(f"intermediate read, {value!r} of the {transaction}, which is open")

    def _may_be_ended_by_the_next(self, transaction: Transaction, value: bytes) -> bool:
        """Whether the partition may have lost the end of this transaction, and has that of a later one of the
        same producer and epoch.
        """
        places = {each[:2] for each in transaction.values if each.value == value} & self._given_up
        if not places:
            return False
        later = self._all[self._all.index(transaction) + 1 :]
        return any(
            other.producer == transaction.producer
            and other.commit_asked
            and any(each[:2] in places for each in other.values)
            for other in later
        )

    def read(self, transaction: Transaction, value: bytes) -> None:
        """An open transaction got this one, which must be committed later."""
        self.seen(value)
        source = self._by_value.get(value)
        if source is not None and source is not transaction:
            transaction.read_from.add(source)

    def check_cycles(self) -> None:
        """No committed transaction has read, through others, what depends on itself."""
        done: set[Transaction] = set()
        for transaction in [] if self.void else self._all:
            self._walk(transaction, [], done)

    def _walk(self, transaction: Transaction, path: list[Transaction], done: set[Transaction]) -> None:
        if transaction in path:
            cycle = path[path.index(transaction) :]
            raise Violation(f"circular information flow among the {', the '.join(map(str, cycle))}")
        if transaction in done or transaction.outcome is False:
            return
        for source in sorted(transaction.read_from, key=str):
            self._walk(source, [*path, transaction], done)
        done.add(transaction)

    def check(
        self, given_up: Collection[tuple[str, int]], is_deleted: Callable[[Value], bool] = lambda value: False
    ) -> None:
        """When readers have seen everything. ``given_up``: partitions that may have lost records.
        ``is_deleted``: whether this one was deleted on purpose.
        """
        self.check_cycles()
        for transaction in [] if self.void else self._all:
            wanted = [
                each
                for each in transaction.values
                if (each.topic, each.partition) not in given_up and not is_deleted(each)
            ]
            seen = [each for each in wanted if each.value in self._seen]
            if transaction.outcome is not False and 0 < len(seen) < len(wanted):
                raise Violation(f"torn, of the {transaction} only {_shown(seen)} can be seen")
            if transaction.outcome and len(seen) < len(wanted):
                raise Violation(f"lost, the {transaction} was committed and cannot be seen")


def _shown(values: Iterable[Value]) -> list[str]:
    return [f"{each.value.decode()} in {each.topic}-{each.partition}" for each in values]
