"""What an idempotent producer may be told about its sequence numbers.

OUT_OF_ORDER_SEQUENCE_NUMBER means that the log has lost a batch. librdkafka then begins a new epoch and sends
everything again that is not acknowledged, in all partitions: duplicates. So a broker must not say it to a
producer that has sent its batches in order and heard an answer to each.

A simulated request may be lost while the next one arrives, which does not happen on a connection. A producer
is judged by its answers only where nothing of that kind can have happened.
"""

from typing import Any

from tidelog.errors import ErrorCode
from tidelog.sim.checkers.violation import Violation

NO_BROKER = -1


class SequenceCheck:
    """One epoch of one producer."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._sent: dict[int, int] = {}  # batches without an answer, by first sequence: the broker
        self._tries: dict[int, int] = {}  # of batches that are not acknowledged: number of the last request
        self._requests = 0
        self._refused: dict[
            int, Any
        ] = {}  # batches whose last answer was another refusal: the broker's process
        self._processes: dict[int, Any] = {}  # of each broker: the one that has answered
        self._unsure: set[int] = set()  # batches that may have been overtaken, until they are acknowledged
        self._may_be_lost = False  # a batch that is acknowledged

    def sent(self, sequence: int, broker: int) -> None:
        if any(other != broker for other in self._sent.values()):
            self._unsure |= {sequence, *self._sent}  # Two connections have no common order.
        self._sent[sequence] = broker
        # Until it is refused again it may have been written, and a request after it may be lost.
        self._refused.pop(sequence, None)
        self._requests += 1
        self._tries[sequence] = self._requests

    def unanswered(self, sequence: int) -> None:
        """A request or its answer was lost."""
        self._sent.pop(sequence, None)
        self._refused.pop(sequence, None)
        self._unsure.add(sequence)

    def forgive(self) -> None:
        """Acknowledged records may be lost."""
        self._may_be_lost = True

    def acknowledged(self, sequence: int, process: Any) -> None:
        self._answered(sequence, process)
        self._refused.pop(sequence, None)
        self._tries.pop(sequence, None)
        self._unsure.discard(sequence)

    def failed_in_the_log(self, sequence: int, process: Any) -> None:
        """Refused after it was appended: for this broker it is not the one that is missing."""
        self._answered(sequence, process)
        self._refused.pop(sequence, None)

    def refused(self, sequence: int, error: ErrorCode, process: Any, first: int) -> None:
        """``first``: the sequence of the first batch that is not acknowledged."""
        self._answered(sequence, process)
        if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._check_missing(sequence, process, first)
            self._refused.pop(
                sequence, None
            )  # Behind a lost request: the next ones are out of order as well.
        else:
            self._refused[sequence] = process

    def _answered(self, sequence: int, process: Any) -> None:
        broker = self._sent.pop(sequence, NO_BROKER)
        if self._processes.setdefault(broker, process) is not process:
            self._processes[broker] = process
            self._unsure |= set(self._tries)  # It has restarted and does not know what it refused.

    def _check_missing(self, sequence: int, process: Any, first: int) -> None:
        if self._may_be_lost:
            return
        if sequence == first:
            if not self._unsure:
                raise Violation(f"{self._who}: sequence {sequence} is out of order, and none is missing")
        elif self._refused.get(first) is process and self._tries[first] < self._tries[sequence]:
            # If an earlier try of the first has been written, this one continues the log: unless another
            # request between them is lost.
            if first in self._unsure and self._may_lack_between(first, sequence):
                return
            raise Violation(
                f"{self._who}: sequence {sequence} is out of order for a broker that has refused {first}"
            )

    def _may_lack_between(self, first: int, sequence: int) -> bool:
        return any(first < other < sequence for other in (*self._sent, *self._unsure))
