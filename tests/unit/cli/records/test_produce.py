"""``tidelog produce``: what is told of lines that were refused, and of an interrupt."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from tidelog.cli.failure import CommandFailed
from tidelog.cli.records.produce import Sender
from tidelog.cli.records.text import Record, parse_plain

NOTHING = Record(None, None, [], None, None)


class FakeProducer:
    """Answers in ``flush``; ``errors`` says how, line by line."""

    def __init__(self, *errors: KafkaError | None) -> None:
        self.errors = errors
        self.answers: list[Callable[[KafkaError | None, Any], None]] = []

    def produce(self, _topic: str, _value: bytes, _key: bytes | None, *, on_delivery: Any) -> None:
        self.answers.append(on_delivery)

    def poll(self, _seconds: float) -> int:
        return 0

    def flush(self, _seconds: float = -1) -> int:
        for answer, error in zip(self.answers, self.errors, strict=True):
            answer(error, None)
        return 0


class InterruptedProducer(FakeProducer):
    """Ctrl-C hits its first callback, which the library then forgets, as confluent-kafka does."""

    def flush(self, seconds: float = -1) -> int:
        if len(self.answers) == len(self.errors):
            del self.answers[0]
            raise SystemError("returned NULL without setting an exception")
        self.errors = self.errors[1:]
        return super().flush(seconds)


def send(producer: FakeProducer, lines: list[bytes]) -> Sender:
    sender = Sender(producer, "orders", NOTHING)  # type: ignore[arg-type]
    sender.send_all(lines, lambda line: parse_plain(line, None), lambda _size: None)
    return sender


def test_every_line_that_was_acknowledged_counts() -> None:
    assert send(FakeProducer(None, None), [b"a\n", b"b\n"]).written == 2


def test_the_line_that_a_broker_refused_is_named() -> None:
    too_large = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    with pytest.raises(CommandFailed, match=r"Line 2 was refused: .*max\.message\.bytes.*; 1 record had"):
        send(FakeProducer(None, too_large), [b"a\n", b"b\n"])


def test_an_interrupt_that_the_library_lost_is_an_interrupt(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        send(InterruptedProducer(None, None, None), [b"a\n", b"b\n", b"c\n"])
    said = "Interrupted; 2 records had been acknowledged, and of 1 more it is not known."
    assert capsys.readouterr().err == f"tidelog: {said}\n"


class LateProducer(FakeProducer):
    """Its first ``flush`` ends before the brokers have answered."""

    def flush(self, seconds: float = -1) -> int:
        return len(self.answers) if seconds > 0 else super().flush()


def test_the_cause_is_told_if_brokers_do_not_answer_for_long() -> None:
    told: list[str] = []
    sender = Sender(LateProducer(None), "orders", NOTHING, lambda: told.append("why"))  # type: ignore[arg-type]
    sender.send_all([b"a\n"], lambda line: parse_plain(line, None), lambda _size: None)
    assert (told, sender.written) == (["why"], 1)


class FullProducer(FakeProducer):
    """Its queue is full until brokers answer, which they do at the third look."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__(None, None)
        self.clock = clock
        self.looks = 0

    def produce(self, topic: str, value: bytes, key: bytes | None, *, on_delivery: Any) -> None:
        if len(self.answers) == 1 and self.looks < 3:
            raise BufferError
        super().produce(topic, value, key, on_delivery=on_delivery)

    def poll(self, seconds: float) -> int:
        if seconds:
            self.looks += 1
            self.clock[0] += 1.5
        return 0


def test_the_cause_is_told_while_the_queue_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, told = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    sender = Sender(FullProducer(clock), "orders", NOTHING, lambda: told.append(clock[0]))  # type: ignore[arg-type]
    sender.send_all([b"a\n", b"b\n"], lambda line: parse_plain(line, None), lambda _size: None)
    assert (told, sender.written) == ([3.0], 2)
