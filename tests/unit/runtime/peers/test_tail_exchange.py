"""How far logs go, as a Kafka request and back."""

from uuid import UUID

from tidelog.errors import ErrorCode
from tidelog.protocol import requests
from tidelog.replication.messages import TailAsk, TailGot
from tidelog.runtime.peers.tail_exchange import TailExchange

ONE, OTHER = UUID(int=1), UUID(int=2)
ASKS = [TailAsk(4, (ONE, 0), 7), TailAsk(4, (OTHER, 2), 9), TailAsk(4, (ONE, 1), 8)]


def test_questions_and_answers_arrive_as_they_left() -> None:
    exchange = TailExchange()
    asked = exchange.asks(requests.request_of(23, exchange.body(2, "c", ASKS)))
    assert sorted(asked) == sorted(ASKS)
    gots = [
        TailGot(2, ask.key, ErrorCode.NONE, ask.epoch, 5, 100 + ask.epoch)
        if ask.epoch != 8
        else TailGot(2, ask.key, ErrorCode.FENCED_LEADER_EPOCH, 8, -1, 0)
        for ask in asked
    ]
    answer = requests.response_of(23, exchange.answer(asked, gots))
    assert list(exchange.gots(2, asked, answer)) == gots
    assert [exchange.token(ask) for ask in asked] == [exchange.token(got) for got in gots]


def test_a_question_that_nobody_answered() -> None:
    exchange = TailExchange()
    answer = requests.response_of(23, exchange.answer(ASKS[:1], [None]))
    [got] = exchange.gots(2, ASKS[:1], answer)
    assert got.error is ErrorCode.REQUEST_TIMED_OUT
