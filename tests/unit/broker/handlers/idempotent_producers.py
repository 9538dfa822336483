"""Batches of idempotent producers."""

from typing import Any

from interop.records import batch
from unit.broker.fakes import NOW_MS, FakeBroker


def sent(*values: bytes, producer: tuple[int, int, int] = (7, 0, 0), at_ms: int = NOW_MS) -> bytes:
    return bytes(batch(*values, producer=producer, timestamps_ms=[at_ms] * len(values)))


def produce(broker: FakeBroker, data: bytes, topic: str = "t") -> Any:
    answers = broker.produce((topic, 0, data))
    broker.services.settle()
    (answer,) = answers
    return answer.responses[0].partition_responses[0]
