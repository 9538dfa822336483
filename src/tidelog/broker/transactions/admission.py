"""Lets a batch begin a transaction in a partition only if the transaction coordinator knows of it.

Otherwise a late batch, which arrives after its transaction has ended, would begin another transaction that
never ends, and consumers with read_committed could not read past it (KIP-890). So before the first batch of a
transaction in a partition, the partition's leader asks the coordinator. For older clients it verifies that
they have added the partition; for newer clients it adds the partition.

A coordinator lets a producer's next epoch begin a transaction only after all partitions have acknowledged the
end of the last one. If that one is still open here, its marker was lost with other records of the partition.
It is aborted before the batch is appended. Otherwise the end of the new transaction would end both, and might
commit what was aborted.

Batches that arrive meanwhile wait behind the first one, so that the producer's order is kept. If the first is
admitted and then refused by its partition, the partition refuses the others, too
(:mod:`tidelog.broker.partitions.refused_batches`).
"""

import logging
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from tidelog.broker.coordinators.coordinator import Coordinator
from tidelog.broker.coordinators.internal_topics import TRANSACTION_STATE
from tidelog.broker.coordinators.keys import partition_of
from tidelog.broker.coordinators.marking import CoordinatorOf, write_marker
from tidelog.broker.coordinators.transaction_machine import TransactionMachine
from tidelog.broker.links.ports import BrokerPorts
from tidelog.broker.partitions.partition import Partition
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.markers import Marker
from tidelog.transactions.rules import ProducerIdAndEpoch
from tidelog.transactions.transaction import EPOCH_BUMP_VERSION
from tidelog.types import NO_BROKER, TopicPartition

logger = logging.getLogger(__name__)

ADD_PARTITIONS_TO_TXN = 24
CONSTANT_EPOCH_VERSION = 0  # of a transaction whose marker has the epoch of its records

Then = Callable[[TidelogError | None], None]
"""Called with None if the batch may be appended, otherwise with the error."""


class Client(Enum):
    """The capabilities of a client, by the version of its request."""

    ADDS = "adds"  # adds partitions with AddPartitionsToTxn before it writes
    ADDS_AND_ABORTS = "adds and aborts"  # the same, and knows TRANSACTION_ABORTABLE
    WRITES = "writes"  # the partition's leader adds the partition


def client_of_produce(version: int) -> Client:
    return Client.WRITES if version >= 12 else Client.ADDS_AND_ABORTS if version >= 11 else Client.ADDS


def client_of_offset_commit(version: int) -> Client:
    """By the version of TxnOffsetCommit."""
    return Client.WRITES if version >= 5 else Client.ADDS_AND_ABORTS if version >= 4 else Client.ADDS


class _Asked(NamedTuple):
    """A transaction whose coordinator is asked about one or more partitions."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    client: Client


class AsOfNow:
    """A partition as it was when a batch of a transaction began to wait, for the coordinator or a thread."""

    __slots__ = ("client", "leader_epoch", "log_end_offset", "partition")

    def __init__(self, partition: Partition, client: Client) -> None:
        self.partition = partition
        self.client = client
        self.leader_epoch = partition.leader_epoch
        self.log_end_offset = partition.log.end_offset

    def refusal(self, producer_id: int) -> TidelogError | None:
        """Why what the coordinator said then, or later, does not count any more."""
        if not self.partition.leads or self.partition.leader_epoch != self.leader_epoch:
            # A producer retries this at the new leader. Upon an error of the transaction it would abort, and
            # librdkafka would leave out the sequence numbers of these batches at the new leader.
            return TidelogError("the partition has another leader by now", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._has_ended(producer_id):
            return TidelogError("the transaction has ended meanwhile", ErrorCode.INVALID_TXN_STATE)
        return None

    def _has_ended(self, producer_id: int) -> bool:
        """Whether the transaction has ended since."""
        if self.client is Client.WRITES:
            # Its marker has a newer epoch, by which the partition recognizes late batches. A marker that
            # arrived meanwhile is that of the previous transaction, for which the coordinator has waited.
            return False
        return self.partition.log.producers.marker_offset(producer_id) >= self.log_end_offset


class _PendingBatches(AsOfNow):
    """The batches of one producer that wait to begin a transaction in one partition."""

    __slots__ = ("then",)

    def __init__(self, partition: Partition, client: Client) -> None:
        super().__init__(partition, client)
        self.then: list[Then] = []


_RETRY_HIDDEN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Temporary errors of the coordinator. Producers do not expect them in a Produce response. They get
NOT_ENOUGH_REPLICAS instead, which they retry without looking for another leader."""


class Admission:
    def __init__(
        self,
        broker: BrokerPorts,
        transactions: Coordinator[TransactionMachine],
        coordinator_of: CoordinatorOf,
    ) -> None:
        """``coordinator_of``: is told of markers in its topic."""
        self._broker = broker
        self._transactions = transactions
        self._coordinator_in = coordinator_of
        self._pending: dict[tuple[TopicPartition, ProducerIdAndEpoch], _PendingBatches] = {}
        self._to_ask: dict[_Asked, set[TopicPartition]] = {}  # collected in this turn of the event loop

    def decide(
        self, partition: Partition, transactional_id: str, producer: ProducerIdAndEpoch, client: Client
    ) -> TidelogError | bool:
        """Whether the producer may write to the partition in its transaction: True, or the error. False if
        the coordinator must be asked first; see :meth:`admit`.
        """
        if (partition.name, producer) in self._pending:
            return False
        if partition.log.producers.is_in_transaction(*producer):
            return True
        if not self._broker.config.transaction_partition_verification_enable:
            return True
        if client is Client.WRITES or self._coordinator_of(transactional_id) != self._broker.broker_id:
            return False
        code = self._verify_here(transactional_id, producer, partition.name)
        if code is None:
            return False
        return _refusal(code, client) or self._abort_left_open(partition, producer) or True

    def _verify_here(
        self, transactional_id: str, producer: ProducerIdAndEpoch, name: TopicPartition
    ) -> ErrorCode | None:
        """Ask the coordinator on this broker. None if it must first verify that it was not replaced."""
        try:
            machine = self._transactions.machine_of(transactional_id)
            if not machine.leads_for_certain:
                return None
            return machine.transactions.verify_partitions(transactional_id, producer, {name})[name]
        except TidelogError as refusal:
            return refusal.code

    def admit(
        self,
        partition: Partition,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        client: Client,
        then: Then,
    ) -> None:
        """Call ``then`` when it is known whether the producer may write to the partition in its
        transaction.
        """
        decision = self.decide(partition, transactional_id, producer, client)
        if decision is not False:
            then(decision if isinstance(decision, TidelogError) else None)
            return
        pending = self._pending.get((partition.name, producer))
        if pending is None:
            pending = self._pending[partition.name, producer] = _PendingBatches(partition, client)
            self._ask_soon(_Asked(transactional_id, producer, client), partition.name)
        pending.then.append(then)

    # -- asking the coordinator --------------------------------------------------------

    def _ask_soon(self, asked: _Asked, name: TopicPartition) -> None:
        if not self._to_ask:
            self._broker.services.soon(self._ask)
        self._to_ask.setdefault(asked, set()).add(name)

    def _ask(self) -> None:
        to_ask, self._to_ask = self._to_ask, {}
        for asked, names in to_ask.items():
            coordinator = self._coordinator_of(asked.transactional_id)
            if coordinator == NO_BROKER:
                self._complete_all(asked, names, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            elif coordinator == self._broker.broker_id and asked.client is Client.WRITES:
                self._add_here(asked, names)
            else:
                self._request(coordinator, asked, names)

    def _coordinator_of(self, transactional_id: str) -> int:
        topic = self._broker.image.topics.get(TRANSACTION_STATE)
        if topic is None:
            return NO_BROKER
        return topic.partitions[partition_of(transactional_id, len(topic.partitions))].leader

    def _add_here(self, asked: _Asked, names: set[TopicPartition]) -> None:
        """Add the partitions with the coordinator on this broker."""

        def heard(response: TidelogError | None) -> None:
            self._complete_all(asked, names, ErrorCode.NONE if response is None else response.code)

        try:
            machine = self._transactions.machine_of(asked.transactional_id)
        except TidelogError as refusal:
            heard(refusal)
            return
        machine.ask(
            lambda waiter, now: machine.transactions.add_partitions(
                asked.transactional_id, asked.producer, names, EPOCH_BUMP_VERSION, waiter, now
            )
        ).then(heard)

    def _request(self, coordinator: int, asked: _Asked, names: set[TopicPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(names):
            topics.setdefault(topic, []).append(index)
        transaction = {
            "transactional_id": asked.transactional_id,
            "producer_id": asked.producer.producer_id,
            "producer_epoch": asked.producer.epoch,
            "verify_only": asked.client is not Client.WRITES,
            "topics": [{"name": topic, "partitions": indexes} for topic, indexes in topics.items()],
        }
        self._broker.links.request(
            coordinator,
            ADD_PARTITIONS_TO_TXN,
            {"transactions": [transaction]},
            lambda response: self._answered(asked, names, response),
        )

    def _answered(self, asked: _Asked, names: set[TopicPartition], response: Any) -> None:
        if isinstance(response, TidelogError):
            self._complete_all(asked, names, response.code)
            return
        codes = {
            TopicPartition(topic.name, result.partition_index): ErrorCode(result.partition_error_code)
            for transaction in response.results_by_transaction
            for topic in transaction.topic_results
            for result in topic.results_by_partition
        }
        for name in sorted(names):
            self._complete(asked, name, codes.get(name, ErrorCode.UNKNOWN_SERVER_ERROR))

    def _complete_all(self, asked: _Asked, names: set[TopicPartition], code: ErrorCode) -> None:
        for name in sorted(names):
            self._complete(asked, name, code)

    # -- after the response ------------------------------------------------------------

    def _complete(self, asked: _Asked, name: TopicPartition, code: ErrorCode) -> None:
        pending = self._pending.pop((name, asked.producer))
        refusal = (
            pending.refusal(asked.producer.producer_id)
            or _refusal(code, pending.client)
            or self._abort_left_open(pending.partition, asked.producer)
        )
        for then in pending.then:
            then(refusal)

    def _abort_left_open(self, partition: Partition, producer: ProducerIdAndEpoch) -> TidelogError | None:
        """The coordinator lets this producer begin: abort what an earlier epoch of it has open. The marker is
        before the batch in the log, so no request waits for it.
        """
        earlier = partition.log.producers.left_open(*producer)
        if earlier is None:
            return None
        first_offset = partition.log.producers.transactions.open[producer.producer_id]
        logger.warning(
            "%s: the end of the transaction of producer %d at offset %d was lost; it is aborted",
            partition.name, producer.producer_id, first_offset,
        )  # fmt: skip
        marker = Marker(commits=False, coordinator_epoch=max(0, earlier.coordinator_epoch))
        errors: list[ErrorCode] = []
        write_marker(
            self._broker, self._coordinator_in, partition.name, producer.producer_id, earlier.epoch, marker,
            CONSTANT_EPOCH_VERSION, errors.append,
        )  # fmt: skip
        if any(errors):
            return TidelogError("the transaction before this one cannot be ended", errors[0])
        return None


def _refusal(code: ErrorCode, client: Client) -> TidelogError | None:
    if code is ErrorCode.NONE:
        return None
    if code in _RETRY_HIDDEN and not (
        code is ErrorCode.CONCURRENT_TRANSACTIONS and client is Client.WRITES  # These clients expect it.
    ):
        return TidelogError(
            f"cannot verify that the records belong to a transaction: {code.name}",
            ErrorCode.NOT_ENOUGH_REPLICAS,
        )
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and client is Client.ADDS:
        code = ErrorCode.INVALID_TXN_STATE
    return TidelogError("the coordinator does not know of this transaction in the partition", code)
