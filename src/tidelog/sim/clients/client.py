"""A client on the simulated network: sends requests to brokers, waits for responses, and learns the leaders.

The calls are Kafka's requests, without the wire. A client does not know what brokers know of each other: it
finds a partition's leader by asking any broker, and trusts the response until a broker contradicts.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.sim.network import Network
from tidelog.sim.world import World

REQUEST_TIMEOUT_MS = 2000.0
PRODUCE_VERSION = 12
BACKOFF_MS = (20.0, 120.0)

RETRIABLE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class ProduceCall(NamedTuple):
    client: int
    number: int
    topic: str
    partition: int
    records: bytes
    acks: int
    timeout_ms: int
    transactional_id: str | None = None
    version: int = PRODUCE_VERSION


class ReadCall(NamedTuple):
    client: int
    number: int
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    last_epoch: int  # of the last record the reader has
    max_bytes: int
    committed: bool = False  # read_committed


class RequestCall(NamedTuple):
    """Any API but the hot ones."""

    client: int
    number: int
    api_key: int
    body: Fields
    version: int | None = None  # None: the newest


class LookupCall(NamedTuple):
    client: int
    number: int
    topic: str
    reads: bool  # Whether the client's connections have shown that it reads.


class Reply(NamedTuple):
    number: int
    error: ErrorCode
    offset: int = -1  # where the records lie
    epoch: int = -1  # of the responding leader, for checkers
    records: bytes = b""
    start_offset: int = -1
    diverging: tuple[int, int] | None = None
    leaders: tuple[tuple[int, int], ...] = ()  # of each partition: (leader, epoch)
    left_ms: float = 0.0  # when the broker sent the response
    aborted: tuple[tuple[int, int], ...] = ()  # transactions: (producer id, first offset)
    body: Any = None  # of a request's answer
    process: Any = None  # of the replica that was read, for checkers: after a restart or a move it is another
    watermark: int = -1
    stable: int = -1  # last stable offset
    agreed_epoch: int = -1  # the last one whose leader had the log of the responder, for checkers
    follower_epoch: int | None = None  # newest one that a responder knows which does not lead, for checkers
    led_epoch: int | None = None  # the one that a responder leads, for checkers


LEFT = Reply._fields.index("left_ms")


def left_at(reply: Reply, now_ms: float) -> Reply:
    """The same with the time it leaves at. ``_replace`` takes three times as long."""
    return _new_reply((*reply[:LEFT], now_ms, *reply[LEFT + 1 :]))


_new_reply: Callable[[tuple[Any, ...]], Reply] = partial(tuple.__new__, Reply)

Call = ProduceCall | ReadCall | LookupCall | RequestCall
Done = Callable[[Reply], None]


class Client:
    def __init__(self, world: World, network: Network, client_id: int, brokers: list[int]) -> None:
        self.world = world
        self.network = network
        self.client_id = client_id
        self._brokers = brokers
        self.reads = False
        self._number = 0
        self._waiting: dict[int, tuple[int, Done]] = {}  # call → broker and callback
        self._leaders: dict[str, tuple[tuple[int, int], ...]] = {}  # by topic
        self._looking: set[str] = set()
        network.join(client_id, self._answered, self._closed)

    # --- asking ---------------------------------------------------------------------------------------------

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def ask(self, broker: int, call: Call, done: Done, patience_ms: float = REQUEST_TIMEOUT_MS) -> None:
        """``done`` gets the response, or a NETWORK_EXCEPTION if none arrived in time; once."""
        number = call.number
        self._waiting[number] = broker, done
        self.network.send(self.client_id, broker, call, in_order=True)
        self.world.after(patience_ms, lambda: self._give_up(number))

    def tell(self, broker: int, call: Call) -> None:
        """No response wanted."""
        self.network.send(self.client_id, broker, call, in_order=True)

    def _answered(self, reply: Any) -> None:
        waiting = self._waiting.pop(reply.number, None)
        if waiting is not None:
            waiting[1](reply)

    def _give_up(self, number: int) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            waiting[1](Reply(number, ErrorCode.NETWORK_EXCEPTION))

    def _closed(self, broker: int) -> None:
        for number in [number for number, (asked, _) in self._waiting.items() if asked == broker]:
            self._give_up(number)

    # --- who leads ------------------------------------------------------------------------------------------

    def leader_of(self, topic: str, partition: int) -> tuple[int, int] | None:
        """(leader, epoch) if known; None: no leader, or it is being requested."""
        known = self._leaders.get(topic)
        if known is None or partition >= len(known) or known[partition][0] < 0:
            self.look_up(topic)
            return None
        return known[partition]

    def look_up(self, topic: str) -> None:
        """Ask some broker for the leader; also if a response shows that our metadata is old."""
        if topic not in self._looking:
            self._looking.add(topic)
            self.ask(
                self.any_broker(),
                LookupCall(self.client_id, self.next_number(), topic, self.reads),
                self._looked_up(topic),
            )

    def _looked_up(self, topic: str) -> Done:
        def done(reply: Reply) -> None:
            self._looking.discard(topic)
            if reply.error is ErrorCode.NONE:
                self._leaders[topic] = _newer(self._leaders.get(topic, ()), reply.leaders)

        return done

    def any_broker(self) -> int:
        return self.world.chance.choice(self._brokers)

    def backoff_ms(self) -> float:
        return self.world.chance.uniform(*BACKOFF_MS)


def _newer(
    known: tuple[tuple[int, int], ...], told: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    """A broker with old metadata must not send us back to a former leader."""
    return tuple(
        known[place] if place < len(known) and known[place][1] > each[1] else each
        for place, each in enumerate(told)
    )
