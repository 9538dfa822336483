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
        self._refused: dict[int, tuple[Any, int]] = {}  # the broker's process, and how many were sent before
        self._processes: dict[int, Any] = {}  # of each broker: the one that has answered
        self._tries = 0
        self._try_of: dict[int, int] = {}
        self._in_order = True  # All batches were sent in order and answered, so none can be missing.

    def sent(self, sequence: int, broker: int) -> None:
        if any(other != broker for other in self._sent.values()):
            self._in_order = False  # Two connections have no common order.
        self._sent[sequence] = broker
        self._tries += 1
        self._try_of[sequence] = self._tries

    def unanswered(self, sequence: int) -> None:
        """A request or its answer was lost."""
        self._sent.pop(sequence, None)
        self._refused.pop(sequence, None)
        self._in_order = False

    def acknowledged(self, sequence: int, process: Any, *, safe: bool) -> None:
        self._answered(sequence, process)
        self._refused.pop(sequence, None)
        if not safe:
            self._in_order = False  # The next leader may lack it.

    def refused(self, sequence: int, error: ErrorCode, process: Any, first: int) -> None:
        """``first``: the sequence of the first batch that is not acknowledged."""
        self._answered(sequence, process)
        if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._check_missing(sequence, process, first)
        self._refused[sequence] = process, self._try_of[sequence]

    def _answered(self, sequence: int, process: Any) -> None:
        broker = self._sent.pop(sequence, NO_BROKER)
        if self._processes.setdefault(broker, process) is not process:
            self._in_order = False  # It has restarted and does not know what it refused.
            self._processes[broker] = process

    def _check_missing(self, sequence: int, process: Any, first: int) -> None:
        if not self._in_order:
            return
        if sequence == first:
            raise Violation(
                f"{self._who}: sequence {sequence} is out of order, and none before it is missing"
            )
        refused = self._refused.get(first)
        if refused is not None and refused[0] is process and refused[1] < self._try_of[sequence]:
            raise Violation(
                f"{self._who}: sequence {sequence} is out of order for a broker that has refused {first}"
            )
