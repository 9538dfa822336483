"""A transactional producer without transaction version 2, like librdkafka and Java before 4.0: it adds a
partition before it writes there, and keeps its epoch from one transaction to the next.

If the outcome of a record is unknown, it requests a new epoch, as these clients do (KIP-360).
"""

from collections.abc import Callable
from typing import Any

from tidelog.errors import ErrorCode
from tidelog.sim.checkers.transactions import Transaction
from tidelog.sim.clients.transactor import Transactor

ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN = 24, 25
ADD_VERSION = 3


class OldTransactor(Transactor):
    produce_version = 9
    end_version = 3
    offset_version = 3

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._added: set[int] = set()
        self._unclear = False  # A record may still be in flight, which would fit into the next transaction.

    def _write_next(self, transaction: Transaction, places: list[int]) -> None:
        if places and places[0] not in self._added:
            self._add(places[0], lambda: super(OldTransactor, self)._write_next(transaction, places))
        else:
            super()._write_next(transaction, places)

    def _add(self, partition: int, done: Callable[[], None]) -> None:
        producer_id, epoch = self._producer
        body = {
            "v3_and_below_transactional_id": self._name, "v3_and_below_producer_id": producer_id,
            "v3_and_below_producer_epoch": epoch,
            "v3_and_below_topics": [{"name": self._topic, "partitions": [partition]}],
        }  # fmt: skip

        def heard(code: ErrorCode, answer: Any) -> None:
            if code is ErrorCode.NONE:
                self._added.add(partition)
                done()
            else:
                self._note(f"add {partition} {code.name}")
                self._unclear = True
                self._end(commit=False)

        self._link.ask(ADD_PARTITIONS_TO_TXN, lambda: body, _code, heard, version=ADD_VERSION)

    def _send(self, partition: int, value: bytes, born_ms: float, done: Callable[[], None]) -> None:
        def sent() -> None:
            self._unclear = False
            done()

        self._unclear = True
        super()._send(partition, value, born_ms, sent)

    def _send_offset(self, *, commit: bool) -> None:
        if self._offsets is None:
            return
        producer_id, epoch = self._producer
        body = {
            "transactional_id": self._name, "producer_id": producer_id, "producer_epoch": epoch,
            "group_id": self._offsets.group,
        }  # fmt: skip

        def heard(code: ErrorCode, answer: Any) -> None:
            self._unclear = True  # until the offset is there
            if code is ErrorCode.NONE:
                super(OldTransactor, self)._send_offset(commit=commit)
            else:
                self._end(commit=False)

        self._link.ask(ADD_OFFSETS_TO_TXN, lambda: body, _offsets_code, heard, version=ADD_VERSION)

    def _end(self, *, commit: bool) -> None:
        if self._sent is not None:
            self._unclear = False
        super()._end(commit=commit)

    def _resume(self, answer: Any) -> None:
        self._added.clear()
        unclear, self._unclear = self._unclear, False
        self._later(self.start if unclear else self._begin)

    def _become(self, answer: Any) -> None:
        super()._become(answer)
        self._added.clear()
        self._unclear = False


def _offsets_code(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code)


def _code(answer: Any) -> ErrorCode:
    (topic,) = answer.results_by_topic_v3_and_below
    (partition,) = topic.results_by_partition
    return ErrorCode(partition.partition_error_code)
