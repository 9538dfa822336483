"""One transaction for each task, ended by the driver: names and requests.

Each attempt of a task has a transaction of its own, ``tidelog-sink-QUERY-TASK-ATTEMPT``: otherwise a late
twin (a lost executor, speculation) would abort the one that the driver is about to commit. The names are
bounded by the number of tasks and attempts, and the brokers list those that are open. So what a process left
behind is found without any notes of its own (:mod:`tidelog.spark.writing.sink`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from tidelog.client.apis import Api
from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError, Refused, error_name, is_retriable
from tidelog.client.messages import TopicPartition
from tidelog.errors import ErrorCode
from tidelog.spark.writing import transaction_messages as messages
from tidelog.spark.writing.coordinator import RETRIED, Coordinators
from tidelog.spark.writing.messages import OF_TRANSACTION, ProducerId, init_producer_id
from tidelog.spark.writing.transaction_messages import ANY, ListedTransaction, TransactionState

T = TypeVar("T")

EMPTY, ONGOING = "Empty", "Ongoing"
MAX_TIMEOUT_SETTING = "transaction.max.timeout.ms"

FENCE_TIMEOUT_MS = 1
"""The timeout of a name that is not in use: it tells a fenced name from one that a task is about to use."""

_GONE = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
    }
)
_FENCED = _GONE | {ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.CONCURRENT_TRANSACTIONS}


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


def transactional_id(sink: str, task: int, attempt: int) -> str:
    return f"{sink}-{task}-{attempt}"


def is_gone(error: ClientError) -> bool:
    """Whether the transaction was ended by another client or by the broker."""
    return isinstance(error, TransactionLost) or (isinstance(error, Refused) and error.code in _GONE)


class Transactions:
    """Requests to transaction coordinators."""

    def __init__(self, cluster: Cluster, coordinators: Coordinators) -> None:
        self._cluster = cluster
        self._coordinators = coordinators

    def begin(self, name: str, timeout_ms: int) -> ProducerId:
        """The name's next epoch; an open transaction of an earlier one is aborted first."""
        code, producer = self._init(name, timeout_ms)
        if code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise ClientError(
                f"Option kafka.transaction.timeout.ms is {timeout_ms}, which is more than the brokers allow: "
                f"use less, or raise their setting {MAX_TIMEOUT_SETTING}."
            )
        if code:
            raise Refused(f"There can be no transaction {name} of {timeout_ms} ms", code)
        return producer

    def fence(self, name: str, producer: ProducerId, *, waits: bool = True) -> None:
        """Abort what this producer has open, and refuse it from now on; nothing if it was replaced.

        ``waits``: until it is done; otherwise until it is certain to be done, or the name is busy.
        """
        retried = RETRIED if waits else frozenset()
        code, _ = self._init(name, FENCE_TIMEOUT_MS, producer, retried)
        if code and code not in _FENCED:
            raise Refused(f"The transaction {name} cannot be aborted", code)

    def _init(
        self, name: str, timeout_ms: int, expected: ProducerId = ANY, retried: frozenset[int] = RETRIED
    ) -> tuple[int, ProducerId]:
        body = messages.init_producer_id_request(name, timeout_ms, expected)
        return self._ask(name, Api.INIT_PRODUCER_ID, body, init_producer_id, lambda told: told[0], retried)

    def add(self, name: str, producer: ProducerId, partitions: Iterable[TopicPartition]) -> None:
        """From here on records for these partitions are part of it."""
        body = messages.add_partitions_request(name, producer, partitions)
        errors = self._ask(name, Api.ADD_PARTITIONS_TO_TXN, body, messages.add_partitions, _first_error)
        code = _first_error(errors)
        if code in _GONE:
            raise TransactionLost(f"The transaction {name} was aborted: {error_name(code)}.")
        if code:
            raise Refused(f"A partition cannot be part of the transaction {name}", code)

    def commit(self, name: str, producer: ProducerId) -> bool:
        """Whether it is committed, by this call or by one before; False: it was aborted."""
        code = self.end(name, producer, commits=True)
        if code in _GONE:
            return False
        if code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            raise UnknownOutcome(
                f"The brokers no longer know the transaction {name}: it is too long ago to say whether its "
                "records were committed. Look at the topic, then start the query with a new checkpoint."
            )
        if code:
            raise Refused(f"The transaction {name} cannot be committed", code)
        return True

    def abort(self, name: str, producer: ProducerId) -> None:
        """Best effort; what is left is fenced by the driver."""
        self.end(name, producer, commits=False)

    def end(self, name: str, producer: ProducerId, *, commits: bool) -> int:
        """The error code."""
        body = messages.end_request(name, producer, commits)
        return self._ask(name, Api.END_TXN, body, messages.only_error, lambda code: code)

    def are_open(self, sink: str, participants: Iterable[Participant]) -> None:
        """Raises :class:`TransactionLost` unless each is as its task left it."""
        expected = {one.name(sink): one.producer for one in participants}
        for name, found in self.describe(list(expected)).items():
            if found.error or found.state != ONGOING or found.producer != expected[name]:
                state = error_name(found.error) if found.error else found.state
                raise TransactionLost(f"The transaction {name} is no longer open: {state}.")

    # -- what there is -------------------------------------------------------------------

    def describe(self, names: Sequence[str]) -> dict[str, TransactionState]:
        """Each with its own error, such as TRANSACTIONAL_ID_NOT_FOUND."""
        by_broker: dict[tuple[str, int], list[str]] = {}
        for name in names:
            by_broker.setdefault(self._coordinators.address(OF_TRANSACTION, name), []).append(name)
        found: dict[str, TransactionState] = {}
        for group in by_broker.values():
            found |= self._describe(group)
        return found

    def _describe(self, names: Sequence[str]) -> dict[str, TransactionState]:
        """Of one coordinator; one by one where they no longer have the same."""
        body = messages.describe_transactions_request(names)
        found = self._ask(
            names[0],
            Api.DESCRIBE_TRANSACTIONS,
            body,
            messages.described_transactions,
            lambda states: states[names[0]].error,
        )
        for name in names[1:]:
            if is_retriable(found[name].error):
                found |= self._describe([name])
        return found

    def listed(self, prefix: str, *states: str) -> list[ListedTransaction]:
        """Of all coordinators: those whose name begins so, in one of these states; of none: in any."""
        body = messages.list_transactions_request(states)
        patience = self._cluster.patience()
        while True:
            try:
                found = [self._listed(address, body) for address in self._cluster.brokers().values()]
            except (OSError, Refused) as error:
                if isinstance(error, Refused) and not is_retriable(error.code):
                    raise
                patience.pause(error)
                continue
            return [one for part in found for one in part if one.name.startswith(prefix)]

    def _listed(self, address: tuple[str, int], body: bytes) -> list[ListedTransaction]:
        version = messages.VERSIONS[Api.LIST_TRANSACTIONS]
        try:
            response = self._cluster.connection(address).call(Api.LIST_TRANSACTIONS, version, body)
            code, found = messages.listed_transactions(response)
        except OSError:
            self._cluster.drop_address(address)
            raise
        if code:
            raise Refused(f"{address[0]}:{address[1]} cannot list its transactions", code)
        return found

    def timeout_ms_max(self) -> int | None:
        """The brokers' limit; None: they do not tell."""
        broker_id, address = next(iter(self._cluster.brokers().items()))
        version = messages.VERSIONS[Api.DESCRIBE_CONFIGS]
        body = messages.describe_broker_request(broker_id, MAX_TIMEOUT_SETTING)
        try:
            response = self._cluster.connection(address).call(Api.DESCRIBE_CONFIGS, version, body)
            value = messages.described_setting(response)
        except OSError:
            self._cluster.drop_address(address)
            return None
        return int(value) if value is not None and value.isdecimal() else None

    def _ask(
        self,
        name: str,
        api: int,
        body: bytes,
        parse: Callable[[memoryview], T],
        error_of: Callable[[T], int],
        retried: frozenset[int] = RETRIED,
    ) -> T:
        version = messages.VERSIONS[api]
        return self._coordinators.ask(OF_TRANSACTION, name, api, version, body, parse, error_of, retried)


def _first_error(errors: dict[TopicPartition, int]) -> int:
    # The failing partition has its own code, the others OPERATION_NOT_ATTEMPTED.
    found = [code for code in errors.values() if code and code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    return found[0] if found else next(filter(None, errors.values()), 0)
