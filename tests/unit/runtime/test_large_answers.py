"""Answers with many elements are encoded in a thread."""

from collections.abc import Callable
from typing import Any

from tidelog.broker.requests.request import RequestContext
from tidelog.protocol.messages import has_more_elements
from tidelog.runtime.handling import ENCODED_AT_ONCE_MAX, handle_plain
from unit.broker.fakes import FakeBroker

METADATA = 3
ALL_TOPICS = b"\xff\xff\xff\xff\x00"


class Thread:
    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def compute(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.waiting.append((work, done))


class Asker:
    """How often the connection is held."""

    def __init__(self) -> None:
        self.holds = 0

    def hold(self) -> None:
        self.holds += 1

    def resume(self) -> None:
        self.holds -= 1

    def await_rows(self, count: int) -> None: ...

    def rows_made(self, count: int) -> None: ...


def ask(broker: FakeBroker, thread: Thread, answers: list[bytes], asker: Asker | None = None) -> None:
    context = RequestContext(METADATA, 4, 7, "test", "peer")
    handle_plain(
        broker.broker, memoryview(ALL_TOPICS), 0, context, answers.append, lambda reason: None,
        thread.compute, asker,
    )  # fmt: skip


def test_elements_of_two_levels_count() -> None:
    answer = {"topics": [{"name": "a", "partitions": [{}, {}]}, {"name": "b", "partitions": [{}]}], "id": 5}
    assert has_more_elements(answer, 4)
    assert not has_more_elements(answer, 5)


def test_a_large_answer_is_encoded_elsewhere() -> None:
    broker, thread, answers = FakeBroker(), Thread(), list[bytes]()
    broker.create("small")
    ask(broker, thread, answers)
    assert len(answers) == 1
    assert not thread.waiting
    broker.create("large", ENCODED_AT_ONCE_MAX)
    ask(broker, thread, answers)
    assert len(answers) == 1
    [(work, done)] = thread.waiting
    done(work())
    assert len(answers) == 2
    assert len(answers[1]) > 10 * ENCODED_AT_ONCE_MAX


def test_one_that_cannot_be_encoded_is_an_error() -> None:
    broker, thread, answers = FakeBroker(), Thread(), list[bytes]()
    broker.create("large", ENCODED_AT_ONCE_MAX + 1)
    ask(broker, thread, answers)
    thread.waiting[0][1](ValueError("defect"))
    assert len(answers) == 1


def test_its_connection_is_held_meanwhile() -> None:
    """A client could make the broker keep a thousand such responses otherwise."""
    broker, thread, answers, asker = FakeBroker(), Thread(), list[bytes](), Asker()
    broker.create("large", ENCODED_AT_ONCE_MAX)
    ask(broker, thread, answers, asker)
    assert (asker.holds, answers) == (1, [])
    [(work, done)] = thread.waiting
    done(work())
    assert (asker.holds, len(answers)) == (0, 1)
