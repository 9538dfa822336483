"""Huge requests are decoded in a thread."""

from io import BytesIO
from typing import Any

import pytest

from tidelog.broker.registry import SERVED
from tidelog.broker.requests.request import RequestContext
from tidelog.protocol import messages
from tidelog.protocol.kio_import import entity_writer
from tidelog.protocol.messages import entity_builder
from tidelog.protocol.own_schemas import load_request_schema
from tidelog.runtime.handling import handle_plain
from tidelog.runtime.large_requests import HUGE_BYTES
from unit.broker.fakes import FakeBroker

FIND_COORDINATOR = 10
VERSION = SERVED[FIND_COORDINATOR].newest


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


class Asker:
    """How often the connection is held, and why it was closed."""

    def __init__(self) -> None:
        self.holds = 0
        self.reasons: list[str] = []

    def hold(self) -> None:
        self.holds += 1

    def resume(self) -> None:
        self.holds -= 1

    def await_rows(self, count: int) -> None: ...

    def rows_made(self, count: int) -> None: ...


def body(key_bytes: int, keys: int = 9) -> bytes:
    schema, sink = load_request_schema(FIND_COORDINATOR, VERSION), BytesIO()
    entity_writer(schema)(
        sink, entity_builder(schema)({"key_type": 0, "coordinator_keys": ["k" * key_bytes] * keys})
    )
    return sink.getvalue()


def ask(broker: FakeBroker, asker: Asker, frame: bytes) -> list[bytes]:
    answers: list[bytes] = []
    messages.load(FIND_COORDINATOR, VERSION)
    context = RequestContext(FIND_COORDINATOR, VERSION, 7, "test", "peer")
    handle_plain(
        broker.broker, memoryview(frame), 0, context, answers.append, asker.reasons.append,
        broker.services.offload, asker,
    )  # fmt: skip
    return answers


def test_others_are_decoded_at_once(broker: FakeBroker) -> None:
    asker = Asker()
    ask(broker, asker, body(10))
    assert not asker.holds


def test_its_connection_is_held_meanwhile(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    asker, handled = Asker(), list[Any]()
    handler = SERVED[FIND_COORDINATOR].handler
    assert handler is not None

    def handle(*request: Any) -> Any:
        handled.append(asker.holds)
        return handler(*request)

    monkeypatch.setitem(SERVED, FIND_COORDINATOR, SERVED[FIND_COORDINATOR]._replace(handler=handle))
    answers = ask(broker, asker, body(HUGE_BYTES // 8))
    assert (asker.holds, handled, answers) == (1, [], [])
    broker.services.settle()
    assert (asker.holds, handled, len(answers)) == (0, [1], 1)


def test_bytes_that_do_not_fit_close_the_connection(broker: FakeBroker) -> None:
    asker = Asker()
    assert ask(broker, asker, bytes([0, 200]) + bytes(HUGE_BYTES)) == []
    assert not asker.reasons
    broker.services.settle()
    assert asker.holds == 0
    (reason,) = asker.reasons
    assert "cannot be parsed" in reason


def test_a_defect_closes_the_connection(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*request: Any) -> None:
        raise MemoryError

    asker = Asker()
    monkeypatch.setattr(messages, "decode", fail)
    ask(broker, asker, body(HUGE_BYTES // 8))
    broker.services.settle()
    assert (asker.holds, len(asker.reasons)) == (0, 1)
    assert caplog.text.count("cannot be decoded") == 1
