"""Decodes batches in a thread if their records must be checked before the append, and keeps their order.

Meanwhile their connection handles no further request. This keeps the order of a producer's batches, and
limits the pending requests of the connection to one.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from tidelog.broker.partitions.table import PartitionTable
from tidelog.broker.partitions.validation import AppendRules, ValidatedBatch, check_opened
from tidelog.broker.requests.request import HangUp, RequestContext
from tidelog.errors import TidelogError
from tidelog.protocol.produce import ProduceRequest, TopicKey
from tidelog.services import Services, ignore

logger = logging.getLogger(__name__)

Work = Callable[[], list[ValidatedBatch | TidelogError]]
Compute = Callable[[Work, Callable[[list[ValidatedBatch | TidelogError] | BaseException], None]], None]
"""Runs work in a thread. The callback gets its result or exception on the event loop."""


class Costly(NamedTuple):
    """A batch that must be decoded, and the rules to check it by."""

    key: TopicKey
    partition: int
    records: memoryview
    rules: AppendRules


class RequestSource(Protocol):
    """The connection of a request."""

    def hold(self) -> None:
        """Handle no further requests."""

    def resume(self) -> None: ...

    def close(self, reason: str) -> None: ...


class _NoSource:
    def hold(self) -> None: ...

    def resume(self) -> None: ...

    def close(self, reason: str) -> None: ...


NO_SOURCE = _NoSource()


class BatchOpening:
    def __init__(
        self,
        partitions: PartitionTable,
        services: Services,
        compute: Compute | None = None,
        give_way: Callable[[], None] = ignore,
    ) -> None:
        """``give_way`` is called about once a millisecond in the thread that decodes batches."""
        self._partitions = partitions
        self._services = services
        self._compute: Compute = compute if compute is not None else services.offload
        self._give_way = give_way
        self.batches = 0  # number of batches decoded in a thread so far

    def costly(self, request: ProduceRequest) -> list[Costly]:
        """The batches of a request that must be decoded first."""
        costly = []
        for key, partitions in request.topics:
            for index, records in partitions:
                partition, _ = self._partitions.find(key, index)
                if partition is not None and records is not None and partition.must_open(records):
                    costly.append(Costly(key, index, records, partition.rules))
        return costly

    def _by_other_rules(self, costly: Sequence[Costly]) -> list[Costly] | None:
        """The batches with the current rules; None if the rules have not changed."""
        now = []
        for each in costly:
            partition, _ = self._partitions.find(each.key, each.partition)
            if partition is not None and partition.must_open(each.records):
                each = each._replace(rules=partition.rules)
            now.append(each)
        return None if now == costly else now

    def first(
        self,
        costly: Sequence[Costly],
        context: RequestContext,
        asker: RequestSource,
        then: Callable[[RequestContext], None],
    ) -> None:
        """Decode and check the batches, then call ``then``. Meanwhile the log may be truncated, rolled or
        deleted, or another broker may become leader. All of that is checked when the batch is appended, as
        for a new request. If the settings change, the batches are checked again.
        """
        now_ms, version, pace = self._services.now_ms(), context.version, self._give_way

        def opened(found: list[ValidatedBatch | TidelogError] | BaseException) -> None:
            try:
                if isinstance(found, BaseException):
                    raise found
                self.batches += len(found)
                if (again := self._by_other_rules(costly)) is not None:
                    self.first(again, context, asker, then)
                    return
                known = {id(each.records): outcome for each, outcome in zip(costly, found, strict=True)}
                then(context._replace(checked=known))
            except HangUp as error:
                asker.close(error.message)
            except Exception:
                logger.exception("a produce request of %s failed", context.peer)
                asker.close("a request failed with an internal error")
            asker.resume()

        asker.hold()
        self._compute(
            lambda: [check_opened(each.records, each.rules, now_ms, version, pace) for each in costly], opened
        )
