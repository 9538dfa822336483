"""How far logs go, as a Kafka request and back."""

from io import BytesIO
from typing import Any
from uuid import UUID

from tidelog.errors import ErrorCode
from tidelog.protocol import messages, requests
from tidelog.protocol.extents import tame
from tidelog.protocol.kio_import import entity_reader, entity_writer, load_response_schema
from tidelog.replication.messages import TailAsk, TailGot
from tidelog.runtime.peers.tail_exchange import TailExchange

ONE, OTHER = UUID(int=1), UUID(int=2)
ASKS = [TailAsk(4, (ONE, 0), 7), TailAsk(4, (OTHER, 2), 9), TailAsk(4, (ONE, 1), 8)]


def test_questions_and_answers_arrive_as_they_left() -> None:
    exchange = TailExchange()
    asked = exchange.asks(requests.request_of(23, exchange.body(2, "c", ASKS)))
    assert sorted(asked) == sorted(ASKS)
    gots = [
        TailGot(2, ask.key, ErrorCode.NONE, ask.epoch, 5, 100 + ask.epoch, 30 + ask.epoch)
        if ask.epoch != 8
        else TailGot(2, ask.key, ErrorCode.FENCED_LEADER_EPOCH, 8, -1, 0)
        for ask in asked
    ]
    answer = requests.response_of(23, exchange.response(asked, gots))
    assert list(exchange.gots(2, asked, answer)) == gots
    assert [exchange.token(ask) for ask in asked] == [exchange.token(got) for got in gots]


def test_a_question_that_nobody_answered() -> None:
    exchange = TailExchange()
    answer = requests.response_of(23, exchange.response(ASKS[:1], [None]))
    [got] = exchange.gots(2, ASKS[:1], answer)
    assert got.error is ErrorCode.REQUEST_TIMED_OUT


def test_the_log_start_travels_in_a_field_of_ours() -> None:
    """A broker of an earlier version skips it, and does not send it."""
    exchange, newest = TailExchange(), requests.newest(23)
    got = TailGot(2, ASKS[0].key, ErrorCode.NONE, ASKS[0].epoch, 5, 100, 30)
    fields = exchange.response(ASKS[:1], [got])
    frame = memoryview(messages.encode(23, newest, 1, fields))[4:]
    assert list(exchange.gots(2, ASKS[:1], requests.decode_response(23, frame))) == [got]

    earlier: type[Any] = load_response_schema(23, newest)
    answer, _ = entity_reader(earlier)(*tame(earlier, frame.toreadonly(), 5))
    assert answer.topics[0].partitions[0].end_offset == 100

    sink = BytesIO()
    entity_writer(earlier)(sink, answer)
    frame = memoryview(b"\x00\x00\x00\x01\x00" + sink.getvalue())
    assert list(exchange.gots(2, ASKS[:1], requests.decode_response(23, frame))) == [
        got._replace(start_offset=0)
    ]


def test_consumers_do_not_get_it() -> None:
    part = {"error_code": ErrorCode.NONE, "partition": 0, "leader_epoch": 5, "end_offset": 100}
    fields = {"topics": [{"topic": "t", "partitions": [part]}]}
    without = messages.encode(23, 4, 1, fields)
    part["start_offset"] = 30
    assert len(messages.encode(23, 4, 1, fields)) == len(without) + 10
