"""The ledger of a sink: which run of the query may write, and the last micro-batch that was decided.

Owns the one fact on which "exactly once" rests. It is kept as committed offsets of a group without members,
``tidelog-sink-QUERY``, and every change of it is a transaction of the transactional id of the same name. A
change begins by taking that name, which fences all who are in the middle of a change, and then reads what the
ledger says. So of two changes that start from the same state one is made, and the other sees the first:
no driver can decide after another one took over.
"""

import base64
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from tidelog.client.apis import Api
from tidelog.client.cluster import Cluster
from tidelog.client.errors import Refused
from tidelog.client.messages import TopicPartition
from tidelog.errors import ErrorCode
from tidelog.spark.writing import ledger_messages as messages
from tidelog.spark.writing.coordinator import Coordinators
from tidelog.spark.writing.ledger_messages import CommittedOffset
from tidelog.spark.writing.messages import OF_GROUP, OF_TRANSACTION, ProducerId
from tidelog.spark.writing.transaction_messages import only_error
from tidelog.spark.writing.transactions import Participant, Transactions, UnknownOutcome

T = TypeVar("T")

_ENTRY = struct.Struct(">iHqh")  # task, attempt, producer id, epoch
_ENTRIES_PER_OFFSET = 160  # of the 4096 characters that brokers allow beside an offset
_FORM = "tidelog-sink-2:"
_FORM_BEFORE = "tidelog-sink-1:"  # a decision alone
_NONE = "-"
_ENDED_RUNS_MAX = 8
CHANGE_TIMEOUT_MS = 10_000  # at most, of a transaction that changes the ledger
_UNSTABLE_TRIES = 12  # about a second: a change takes milliseconds
_FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision to commit a micro-batch, and its parts."""

    batch_id: int
    tasks: int  # how many there were, with and without rows
    participants: tuple[Participant, ...]
    round: int = 0  # how often it was decided again because a transaction of the list was aborted

    def of_task(self, task: int) -> Participant | None:
        return next((one for one in self.participants if one.task == task), None)


@dataclass(frozen=True, slots=True)
class LedgerState:
    """What the ledger says."""

    version: int = 0  # of the ledger: one more with each change; 0: there is none
    run: str | None = None  # the run of the query that may write
    driver: str = ""  # where that run's driver is, see WriterSettings
    ended: tuple[str, ...] = ()  # the last runs that may write no more, the oldest first
    decision: Decision | None = None
    topic: str | None = None  # beside whose offsets it is kept

    def is_decided(self, batch_id: int) -> bool:
        return self.decision is not None and self.decision.batch_id >= batch_id

    def owned_by(self, run: str, driver: str) -> "LedgerState":
        return replace(self, version=self.version + 1, run=run, driver=driver)

    def without(self, run: str) -> "LedgerState":
        """The run has ended, if it ever began; no other may be running."""
        ended = (*self.ended, run)[-_ENDED_RUNS_MAX:]
        return replace(self, version=self.version + 1, run=None, driver="", ended=ended)

    def with_decision(self, decision: Decision) -> "LedgerState":
        return replace(self, version=self.version + 1, decision=decision)


class Ledger:
    """Reads and changes the ledger of one sink."""

    def __init__(
        self,
        cluster: Cluster,
        coordinators: Coordinators,
        sink: str,
        timeout_ms: int = CHANGE_TIMEOUT_MS,
    ) -> None:
        self._cluster = cluster
        self._coordinators = coordinators
        self._transactions = Transactions(cluster, coordinators)
        self._sink = sink
        self._timeout_ms = timeout_ms

    def read(self) -> LedgerState:
        """What was last changed, by any query."""
        patience = self._cluster.patience()
        unstable = 0
        while True:
            code, offsets = self._fetch()
            if code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                unstable += 1
                if unstable % _UNSTABLE_TRIES == 0:
                    # Who makes this change is slow, or dead. Whether it is made is known afterwards.
                    self._transactions.begin(self._sink, self._timeout_ms)
                patience.pause("a change of the ledger is being written")
                continue
            if code:
                raise Refused(f"What was decided about {self._sink} cannot be read", code)
            return decode(offsets)

    def change(self, before: LedgerState, after: LedgerState, topic: str) -> bool:
        """Whether it was made; False: the ledger is not as ``before`` any more, or another query changes it.

        ``topic``: one that exists, to which the sink writes; offsets of others are refused.
        """
        producer = self._transactions.begin(self._sink, self._timeout_ms)
        if self.read().version != before.version:
            return False
        code = self._add_offsets(producer) or self._commit(producer, encode(after), before.topic or topic)
        code = code or self._transactions.end(self._sink, producer, commits=True)
        if code in _FENCED:
            return False
        if code:
            self._transactions.abort(self._sink, producer)
            raise Refused(f"The ledger of {self._sink} cannot be written", code)
        return True

    # -- requests ------------------------------------------------------------------------

    def _fetch(self) -> tuple[int, dict[TopicPartition, CommittedOffset]]:
        return self._ask(
            OF_GROUP,
            Api.OFFSET_FETCH,
            messages.offset_fetch_request(self._sink),
            messages.offset_fetch,
            lambda response: 0 if response[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT else response[0],
        )

    def _add_offsets(self, producer: ProducerId) -> int:
        body = messages.add_offsets_request(self._sink, producer, self._sink)
        return self._ask(OF_TRANSACTION, Api.ADD_OFFSETS_TO_TXN, body, only_error, lambda code: code)

    def _commit(self, producer: ProducerId, offsets: Mapping[int, CommittedOffset], topic: str) -> int:
        body = messages.offset_commit_request(self._sink, producer, self._sink, topic, offsets)
        return self._ask(OF_GROUP, Api.TXN_OFFSET_COMMIT, body, messages.offset_commit, lambda code: code)

    def _ask(
        self,
        kind: int,
        api: int,
        body: bytes,
        parse: Callable[[memoryview], T],
        error_of: Callable[[T], int],
    ) -> T:
        version = messages.VERSIONS[api]
        return self._coordinators.ask(kind, self._sink, api, version, body, parse, error_of)


# -- as offsets --------------------------------------------------------------------------------


def encode(state: LedgerState) -> dict[int, CommittedOffset]:
    """One offset is enough for 160 tasks, and all of one change are written together."""
    decision = state.decision or Decision(-1, 0, ())
    packed = [_ENTRY.pack(one.task, one.attempt, *one.producer) for one in decision.participants]
    parts = [packed[at : at + _ENTRIES_PER_OFFSET] for at in range(0, len(packed), _ENTRIES_PER_OFFSET)]
    head = ":".join(
        (
            f"{_FORM}{state.version}",
            state.run or _NONE,
            state.driver or _NONE,
            ",".join(state.ended) or _NONE,
            f"{decision.batch_id}:{decision.round}:{decision.tasks}:{len(packed)}",
        )
    )
    return {
        index: CommittedOffset(
            max(decision.batch_id, 0), f"{head}:{base64.b64encode(b''.join(part)).decode()}"
        )
        for index, part in enumerate(parts or [[]])
    }


def decode(offsets: Mapping[TopicPartition, CommittedOffset]) -> LedgerState:
    """The newest state; older ones under other partitions or topics are ignored."""
    parts = [part for (topic, _), one in offsets.items() if (part := _Part.parse(topic, one)) is not None]
    if not parts:
        return LedgerState()
    newest = max(part.age for part in parts)
    chosen = [part for part in parts if part.age == newest]
    participants = sorted({one for part in chosen for one in part.participants})
    if len(participants) != chosen[0].total:
        raise UnknownOutcome(
            f"The decision about batch {newest[1]} names {len(participants)} transactions"
            f" of {chosen[0].total}."
        )
    state, decision = chosen[0].state, chosen[0].state.decision
    if decision is None:
        return state
    return replace(state, decision=replace(decision, participants=tuple(participants)))


class _Part(NamedTuple):
    """One offset's share of the ledger."""

    state: LedgerState  # without participants
    total: int  # of participants in all parts
    participants: list[Participant]

    @property
    def age(self) -> tuple[int, int, int]:
        """The highest is the newest. Before there were versions, batches counted."""
        decision = self.state.decision
        batch = (-1, 0) if decision is None else (decision.batch_id, decision.round)
        return (self.state.version, *batch)

    @classmethod
    def parse(cls, topic: str, committed: CommittedOffset) -> "_Part | None":
        text = committed.metadata
        if text.startswith(_FORM):
            version, run, driver, ended, batch, *rest = text.removeprefix(_FORM).split(":")
            state = LedgerState(
                version=int(version),
                run=None if run == _NONE else run,
                driver="" if driver == _NONE else driver,
                ended=() if ended == _NONE else tuple(ended.split(",")),
            )
            return cls._decided(state, topic, int(batch), rest)
        if text.startswith(_FORM_BEFORE):
            rest = text.removeprefix(_FORM_BEFORE).split(":")
            return cls._decided(LedgerState(), topic, committed.offset, rest)
        return None

    @classmethod
    def _decided(cls, state: LedgerState, topic: str, batch_id: int, rest: list[str]) -> "_Part":
        round_, tasks, total, entries = rest
        decision = None if batch_id < 0 else Decision(batch_id, int(tasks), (), int(round_))
        participants = [
            Participant(task, attempt, ProducerId(producer_id, epoch))
            for task, attempt, producer_id, epoch in _ENTRY.iter_unpack(base64.b64decode(entries))
        ]
        return cls(replace(state, decision=decision, topic=topic), int(total), participants)
