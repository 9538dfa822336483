"""One transaction for each task, ended by the driver; and the ledger that says which micro-batch was decided.

Owns the names, the requests and the one fact on which "exactly once" rests. How a micro-batch is written:

1. Each task writes its rows in a transaction of its own, ``tidelog-sink-QUERY-TASK-ATTEMPT``, and leaves it
   open. ``read_committed`` readers see nothing of it.
2. When all tasks are done, the driver checks that all these transactions are still open, and then commits
   one offset of the consumer group ``tidelog-sink-QUERY``: the batch id, with the list of transactions beside
   it. **This is the decision**: one record of one log, it is there or it is not.
3. The driver commits the transactions of the list, one after another.

What a crash leaves behind, and what the batch finds when Spark runs it again:

- before 2: open transactions and no decision. The new tasks use the same names, which aborts the open ones,
  and write everything. Nothing was visible.
- after 2: the decision. Each task commits its transaction of the list again, which does nothing if that
  was done before, and drops its rows. So nothing depends on the rows being the same, or in the same
  tasks, as the first time.
- after 2, and then down for longer than ``transaction.timeout.ms``: the coordinator may have aborted a
  transaction of the list. Its task is refused the commit and writes its rows again: only here they have to be
  the same rows as before, and the same number of tasks is required.

An attempt of a task never touches another attempt's transaction: otherwise a late twin (a lost executor,
speculation) would abort the one that the driver is about to commit. Open transactions of failed attempts are
aborted by the driver, or by their timeout. After the decision nothing is aborted any more.
"""

import base64
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.client.apis import Api
from tidelog.client.errors import ClientError, Refused
from tidelog.client.messages import TopicPartition
from tidelog.errors import ErrorCode
from tidelog.spark.writing import messages
from tidelog.spark.writing.coordinator import Coordinators
from tidelog.spark.writing.messages import OF_GROUP, OF_TRANSACTION, CommittedOffset, ProducerId

_ENTRY = struct.Struct(">iHqh")  # task, attempt, producer id, epoch
_ENTRIES_PER_OFFSET = 180  # of the 4096 characters that brokers allow beside an offset
_FORM = "tidelog-sink-1"
_ONGOING = "Ongoing"
_GONE = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
    }
)


class TransactionLost(ClientError):
    """It was aborted, by its timeout or by a newer producer of the same name."""


class UnknownOutcome(ClientError):
    """It is unknown whether a decided micro-batch was written."""


class Participant(NamedTuple):
    """One task's open transaction."""

    task: int
    attempt: int
    producer: ProducerId

    def name(self, sink: str) -> str:
        return transactional_id(sink, self.task, self.attempt)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision to commit a micro-batch, and its parts."""

    batch_id: int
    tasks: int  # how many there were, with and without rows
    participants: tuple[Participant, ...]
    round: int = 0  # how often it was decided again because a transaction of the list was aborted

    def of_task(self, task: int) -> Participant | None:
        return next((one for one in self.participants if one.task == task), None)


def sink_of_query(query_id: str) -> str:
    return f"tidelog-sink-{query_id}"


def transactional_id(sink: str, task: int, attempt: int) -> str:
    return f"{sink}-{task}-{attempt}"


class Transactions:
    """Requests to transaction coordinators."""

    def __init__(self, coordinators: Coordinators) -> None:
        self._coordinators = coordinators

    def begin(self, name: str, timeout_ms: int) -> ProducerId:
        """The name's next epoch; an open transaction of an earlier one is aborted first."""
        body = messages.init_producer_id_request(name, timeout_ms)
        code, producer = self._coordinators.ask(
            OF_TRANSACTION,
            name,
            Api.INIT_PRODUCER_ID,
            body,
            messages.init_producer_id,
            lambda response: response[0],
        )
        if code:
            raise Refused(f"There can be no transaction {name} of {timeout_ms} ms", code)
        return producer

    def add(self, name: str, producer: ProducerId, partitions: Iterable[TopicPartition]) -> None:
        """From here on records for these partitions are part of it."""
        body = messages.add_partitions_request(name, producer, partitions)
        errors = self._coordinators.ask(
            OF_TRANSACTION, name, Api.ADD_PARTITIONS_TO_TXN, body, messages.add_partitions, _first_error
        )
        code = _first_error(errors)
        if code in _GONE:
            raise TransactionLost(f"The transaction {name} was aborted: {ErrorCode(code).name}.")
        if code:
            raise Refused(f"A partition cannot be part of the transaction {name}", code)

    def commit(self, name: str, producer: ProducerId) -> bool:
        """Whether it is committed, by this call or by one before; False: it was aborted."""
        code = self._end(name, producer, commits=True)
        if code in _GONE:
            return False
        if code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            raise UnknownOutcome(
                f"The brokers no longer know the transaction {name}: it is too long ago to say whether its "
                f"records "
                "were committed. Look at the topic, then start the query with a new checkpoint."
            )
        if code:
            raise Refused(f"The transaction {name} cannot be committed", code)
        return True

    def abort(self, name: str, producer: ProducerId) -> None:
        """Best effort; what is left ends with its timeout."""
        self._end(name, producer, commits=False)

    def are_open(self, sink: str, participants: Iterable[Participant]) -> None:
        """Raises :class:`TransactionLost` unless each is as its task left it."""
        by_broker: dict[tuple[str, int], list[Participant]] = {}
        for one in participants:
            by_broker.setdefault(self._coordinators.address(OF_TRANSACTION, one.name(sink)), []).append(one)
        for group in by_broker.values():
            self._check_open(sink, group)

    def _check_open(self, sink: str, participants: list[Participant]) -> None:
        """Of one coordinator; one by one where they no longer have the same."""
        names = [one.name(sink) for one in participants]
        states = self._coordinators.ask(
            OF_TRANSACTION,
            names[0],
            Api.DESCRIBE_TRANSACTIONS,
            messages.describe_transactions_request(names),
            messages.described_transactions,
            lambda states: states[names[0]].error,
        )
        for one, name in zip(participants, names, strict=True):
            found = states[name]
            if found.error and len(participants) > 1:
                self._check_open(sink, [one])
            elif found.error or found.state != _ONGOING or found.producer != one.producer:
                raise TransactionLost(
                    f"The transaction {name} is no longer open: {found.state or found.error}."
                )

    def _end(self, name: str, producer: ProducerId, *, commits: bool) -> int:
        body = messages.end_request(name, producer, commits)
        return self._coordinators.ask(
            OF_TRANSACTION, name, Api.END_TXN, body, messages.only_error, lambda code: code
        )


class Ledger:
    """The last decision about a sink, kept as committed offsets of a group that has no members."""

    def __init__(self, coordinators: Coordinators, sink: str) -> None:
        self._coordinators = coordinators
        self._group = sink

    def read(self) -> Decision | None:
        code, offsets = self._coordinators.ask(
            OF_GROUP,
            self._group,
            Api.OFFSET_FETCH,
            messages.offset_fetch_request(self._group),
            messages.offset_fetch,
            lambda response: response[0],
        )
        if code:
            raise Refused(f"What was decided about {self._group} cannot be read", code)
        return decode(offsets)

    def write(self, decision: Decision, topic: str) -> None:
        """``topic``: one that the batch writes to; offsets of topics that do not exist are refused."""
        body = messages.offset_commit_request(self._group, topic, encode(decision))
        code = self._coordinators.ask(
            OF_GROUP, self._group, Api.OFFSET_COMMIT, body, messages.offset_commit, lambda code: code
        )
        if code:
            raise Refused(f"The decision about {self._group} cannot be written", code)


def encode(decision: Decision) -> dict[int, CommittedOffset]:
    """As offsets: one is enough for 180 tasks, and all of one request are written together."""
    packed = [_ENTRY.pack(one.task, one.attempt, *one.producer) for one in decision.participants]
    parts = [packed[at : at + _ENTRIES_PER_OFFSET] for at in range(0, len(packed), _ENTRIES_PER_OFFSET)]
    return {
        index: CommittedOffset(
            decision.batch_id,
            f"{_FORM}:{decision.round}:{decision.tasks}:{len(packed)}:{base64.b64encode(b''.join(part)).decode()}",
        )
        for index, part in enumerate(parts)
    }


def decode(offsets: Mapping[TopicPartition, CommittedOffset]) -> Decision | None:
    """The newest decision; older ones under other partitions or topics are ignored."""
    parts = [_Part.parse(one) for one in offsets.values() if one.metadata.startswith(_FORM + ":")]
    if not parts:
        return None
    newest = max((part.batch_id, part.round) for part in parts)
    chosen = [part for part in parts if (part.batch_id, part.round) == newest]
    participants = sorted({one for part in chosen for one in part.participants})
    if len(participants) != chosen[0].total:
        raise UnknownOutcome(
            f"The decision about batch {newest[0]} names {len(participants)} transactions"
            f" of {chosen[0].total}."
        )
    return Decision(chosen[0].batch_id, chosen[0].tasks, tuple(participants), chosen[0].round)


class _Part(NamedTuple):
    """One offset's share of a decision."""

    batch_id: int
    round: int
    tasks: int
    total: int  # of participants in all parts
    participants: list[Participant]

    @classmethod
    def parse(cls, committed: CommittedOffset) -> "_Part":
        round_, tasks, total, entries = committed.metadata.removeprefix(_FORM + ":").split(":", 3)
        participants = [
            Participant(task, attempt, ProducerId(producer_id, epoch))
            for task, attempt, producer_id, epoch in _ENTRY.iter_unpack(base64.b64decode(entries))
        ]
        return cls(committed.offset, int(round_), int(tasks), int(total), participants)


def _first_error(errors: Mapping[TopicPartition, int]) -> int:
    # The failing partition has its own code, the others OPERATION_NOT_ATTEMPTED.
    found = [code for code in errors.values() if code and code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    return found[0] if found else next(filter(None, errors.values()), 0)
