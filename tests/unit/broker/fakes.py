"""A whole broker without a process: time, threads and disk are in the test's hands.

Nothing happens by itself. ``settle`` does everything that is due now, ``advance`` lets time pass; while the
disk is ``held``, syncs stay unfinished. Requests and answers go through kio, so what a test sees is what a
client sees.
"""

import io
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from kio.index import load_request_schema
from kio.serial import entity_writer

from interop.records import CODECS
from interop.wire import API_KEYS, build, parse_response
from tidelog.broker.broker import Broker
from tidelog.broker.delivery import local_links
from tidelog.broker.future import Future
from tidelog.broker.guards.parts import Forbidden
from tidelog.broker.guards.table import admit
from tidelog.broker.handlers.fetch import FetchHandler, PendingFetch
from tidelog.broker.handlers.produce import ProduceHandler
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.table import PartitionTable, TablePorts
from tidelog.broker.quorum.partitions import ClusterPorts, QuorumPartitions
from tidelog.broker.registry import SERVED
from tidelog.broker.requests.request import RequestContext
from tidelog.config import BrokerConfig
from tidelog.controller import security
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import BrokerRegistered, ClusterFounded, MetadataRecord
from tidelog.controller.store import Decide, Done
from tidelog.errors import TidelogError
from tidelog.log.directory import DataDirectory
from tidelog.log.storage import Region
from tidelog.protocol import messages
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.host import Host
from tidelog.replication.messages import Message
from tidelog.replication.votes import Timing
from tidelog.security.acls import Acl
from tidelog.security.principal import ANONYMOUS
from tidelog.sim.disk import SimulatedDisk

NOW_MS = 1_700_000_000_000
ME = 1


class FakeTimer:
    def __init__(self, at_ms: float, callback: Callable[[], None]) -> None:
        self.at_ms = at_ms
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeServices:
    def __init__(self) -> None:
        self.clock_ms = NOW_MS
        self.held = False  # Offloaded work waits.
        self._soon: deque[Callable[[], None]] = deque()
        self._offloaded: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._timers: list[FakeTimer] = []
        self._ids = 0

    def perturb(self, name: str) -> bool:
        return False

    def now_ms(self) -> int:
        return self.clock_ms

    def uptime_ms(self) -> int:
        return self.clock_ms - NOW_MS

    def new_uuid(self) -> UUID:
        self._ids += 1
        return UUID(int=0x7E5E_0000_0000 + self._ids)

    def soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def in_turn(self, callback: Callable[[], None], *, urgent: bool = False) -> None:
        self.soon(callback)

    def later(self, delay_ms: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self.clock_ms + delay_ms, callback)
        self._timers.append(timer)
        return timer

    def offload(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self._offloaded.append((work, done))

    @property
    def timers(self) -> list[FakeTimer]:
        return [timer for timer in self._timers if not timer.cancelled]

    def step(self) -> None:
        """Do what is due first."""
        self._soon.popleft()()

    def settle(self) -> None:
        """Do everything that is due now."""
        while self._soon or (self._offloaded and not self.held):
            if self._soon:
                self._soon.popleft()()
                continue
            work, done = self._offloaded.popleft()
            try:
                result = work()
            except Exception as error:
                result = error
            done(result)

    def advance(self, milliseconds: int) -> None:
        """Let time pass, firing timers in order."""
        end_ms = self.clock_ms + milliseconds
        while due := sorted((t for t in self.timers if t.at_ms <= end_ms), key=lambda timer: timer.at_ms):
            self.clock_ms = max(self.clock_ms, int(due[0].at_ms))
            due[0].cancel()
            due[0].callback()
            self.settle()
        self.clock_ms = end_ms


class MemoryStore:
    """A metadata log that commits at once, or, while ``held``, when told to."""

    def __init__(self) -> None:
        self.image = self._decided = ClusterImage()
        self.leader = ME
        self.held = False
        self.failure: TidelogError | None = None
        self.on_change: Callable[[ClusterImage], None] = lambda image: None
        self._waiting: list[tuple[Sequence[MetadataRecord], Done]] = []
        self.committed_offset = 0

    def submit(self, decide: Decide, done: Done) -> None:
        try:
            if self.failure is not None:
                raise self.failure
            records = decide(self._decided)
        except TidelogError as refusal:
            done(refusal)
            return
        self._decided = self._decided.apply(records)
        self._waiting.append((records, done))
        if not self.held:
            self.commit()

    def commit(self) -> None:
        waiting, self._waiting = self._waiting, []
        for records, done in waiting:
            self.image = self.image.apply(records)
            self.committed_offset += len(records)
            self.on_change(self.image)
            done(None)


class NoPeers:
    """Nobody answers."""

    def send(self, to: int, message: Message) -> None: ...


class FakeBroker:
    """A broker with everything around it, and the calls tests make."""

    def __init__(self, **settings: object) -> None:
        values = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig.parse({"node.id": ME, "num.partitions": 1, **values})  # type: ignore[dict-item]
        self.services = FakeServices()
        self.principal = ANONYMOUS  # of all requests
        self.audited: list[Any] = []  # lines of the audit log
        self.disk = SimulatedDisk()
        self.directory = DataDirectory.open(self.disk, "data", node_id=ME, now_ms=NOW_MS)
        self.store = MemoryStore()
        self.configs: list[BrokerConfig] = []  # as they were changed while it runs
        self.host = Host(ME, self.services, NoPeers(), lambda: 0.5)
        quorum = QuorumPartitions(
            self.host, self.disk, self.directory.path, self.services, NoPeers(), lambda: 0.5, Timing(), None,
            ClusterPorts(lambda: self.store.image, lambda: 1, lambda ask: None),
        )  # fmt: skip
        self.alone = False  # Without a session.
        self.listener = ""  # that its clients come in by
        self.metadata_failed = False  # The log, as on a full disk.
        ports = TablePorts(alone=lambda: self.alone, metadata_failed=lambda: self.metadata_failed)
        self.partitions = PartitionTable(self.host, self.directory, self.services, quorum, ports)
        self.broker = Broker(
            self.config,
            self.store,
            self.partitions,
            self.services,
            local_links,
            on_config=self.configs.append,
            audit=self.audited.append,
        )
        self.store.on_change = self.broker.metadata_changed
        self.submit(ClusterFounded("cluster"), BrokerRegistered(ME, UUID(int=1), "localhost", 9092))
        self.producing = ProduceHandler(self.broker)
        self.fetching = FetchHandler(self.broker)

    def submit(self, *records: MetadataRecord) -> None:
        self.store.submit(lambda image: records, lambda error: None)

    # -- requests ----------------------------------------------------------------------

    def begin(self, api: str, version: int | None = None, **values: Any) -> Future[Any]:
        """Send a request to its handler; the future is of the answer as kio reads it."""
        key = API_KEYS[api]
        version = SERVED[key].newest if version is None else version
        handler = SERVED[key].handler
        assert handler is not None
        answer: Future[Any] = Future()

        def encode(fields: Any) -> None:
            frame = messages.encode(key, version, 7, fields)
            answer.complete(parse_response(frame[4:], api, version, 7))

        request = build(load_request_schema(key, version), values)
        context = self.context(key, version)._replace(by_node=api == "write_txn_markers")
        outcome = self._guarded(handler, request, context)
        if isinstance(outcome, Future):
            outcome.then(encode)
        else:
            encode(outcome)
        return answer

    def context(self, key: int, version: int) -> RequestContext:
        return RequestContext(
            key, version, 7, "test", "10.0.0.1:5", principal=self.principal, listener=self.listener
        )

    def _guarded(self, handler: Any, request: Any, context: RequestContext) -> Any:
        """As the server calls a handler."""
        admitted = admit(self.broker, request, context)
        if isinstance(admitted, Forbidden):
            return admitted.fields
        outcome = handler(self.broker, admitted.request, context)
        merge = admitted.merge
        if merge is None:
            return outcome
        if not isinstance(outcome, Future):
            return merge(outcome)
        merged: Future[Any] = Future()
        outcome.then(lambda fields: merged.complete(merge(fields)))
        return merged

    def allow(self, *rules: Acl) -> None:
        """Add access rules."""
        self.submit(*security.add_acls(self.store.image.security, rules))

    def call(self, api: str, version: int | None = None, **values: Any) -> Any:
        future = self.begin(api, version, **values)
        self.services.settle()
        assert future.is_complete, f"{api} was not answered"
        return value_of(future)

    def call_within(self, milliseconds: int, api: str, **values: Any) -> Any:
        """The answer to a request that waits, at the end of this time."""
        future = self.begin(api, **values)
        self.services.settle()
        self.services.advance(milliseconds)
        assert future.is_complete, f"{api} was not answered within {milliseconds} ms"
        return value_of(future)

    def create(self, name: str, partitions: int = 1, **configs: object) -> UUID:
        """A topic; names of settings are written with underscores for dots. Its id."""
        pairs = [{"name": key.replace("_", "."), "value": str(value)} for key, value in configs.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": pairs}
        (result,) = self.call("create_topics", topics=[topic]).topics
        assert result.error_code == 0, result
        return self.topic_id(name)

    def topic_id(self, name: str) -> UUID:
        return self.store.image.topics[name].topic_id

    def partition(self, name: str, index: int = 0) -> Partition:
        found, error = self.partitions.find(name, index)
        assert found is not None, error
        return found

    def produce(self, *parts: tuple[str, int, bytes | None], acks: int = -1, version: int = 12) -> list[Any]:
        """Send (topic, partition, records) in one request. What was sent back so far: one answer, None where
        the client wants none, or nothing yet."""
        sent: list[Any] = []
        topics: dict[str, list[Any]] = {}
        for name, index, records in parts:
            topics.setdefault(name, []).append({"index": index, "records": records})
        data = [
            {"name": name, "topic_id": self._id(name), "partition_data": partitions}
            for name, partitions in topics.items()
        ]
        body = request_body(0, version, {"acks": acks, "timeout": 30_000, "topic_data": data})

        def send(frame: bytes | bytearray | None) -> None:
            sent.append(None if frame is None else parse_response(bytes(frame[4:]), "produce", version, 7))

        context = self.context(0, version)
        self.producing.handle(memoryview(bytearray(body)), 0, context, send)
        return sent

    def append(self, name: str, *values: bytes, partition: int = 0, **more: Any) -> Any:
        """Produce one batch and settle; the partition's answer."""
        sent = self.produce((name, partition, records(*values, **more)))
        self.services.settle()
        (answer,) = sent
        return answer.responses[0].partition_responses[0]

    def fetch(self, *topics: dict[str, Any], version: int = 12, **more: Any) -> "Fetching":
        """Send a fetch; see :func:`wanted` for the topics."""
        values = {"replica_id": -1, "max_wait": 500, "min_bytes": 1, "max_bytes": 1 << 20, **more}
        values["topics"] = [{**topic, "topic_id": self._id(topic["topic"])} for topic in topics]
        for topic in values.get("forgotten_topics_data", ()):
            topic["topic_id"] = self._id(topic["topic"])
        if version >= 7 and "session_id" not in values:
            values |= {"session_id": 0, "session_epoch": -1}
        found = Fetching(version)
        context = self.context(1, version)
        body = request_body(1, version, values)
        found.pending = self.fetching.handle(memoryview(body), 0, context, found.receive, found.give_up)
        return found

    def _id(self, name: str) -> UUID:
        topic = self.store.image.topics.get(name)
        return UUID(int=0xDEAD) if topic is None else topic.topic_id


class Fetching:
    """A fetch under way."""

    def __init__(self, version: int) -> None:
        self._version = version
        self.pending: PendingFetch | None = None
        self.answers: list[Any] = []
        self.given_up = ""  # why there will be none

    def give_up(self, reason: str) -> None:
        self.given_up = reason

    def receive(self, parts: list[Any]) -> None:
        frame = b"".join(part.read() if isinstance(part, Region) else bytes(part) for part in parts)
        self.answers.append(parse_response(frame[4:], "fetch", self._version, 7))

    @property
    def waits(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> Any:
        (answer,) = self.answers
        return answer

    @property
    def partitions(self) -> list[Any]:
        return [partition for topic in self.answer.responses for partition in topic.partitions]

    @property
    def partition(self) -> Any:
        (partition,) = self.partitions
        return partition


def wanted(topic: str, *offsets: int, first: int = 0, **more: Any) -> dict[str, Any]:
    """Partitions ``first``, ``first + 1``, … of a topic from these offsets on, as a fetch names them."""
    partitions = [
        {"partition": first + place, "fetch_offset": offset, "partition_max_bytes": 1 << 20,
         "current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1, **more}
        for place, offset in enumerate(offsets)
    ]  # fmt: skip
    return {"topic": topic, "partitions": partitions}


def records(
    *values: bytes | None,
    at_ms: int = NOW_MS,
    keys: Sequence[bytes | None] | None = None,
    codec: str = "none",
) -> bytes:
    """One batch of these values as a producer sends it."""
    given = keys or [None] * len(values)
    rows = [
        Record(place, at_ms, key, value) for place, (key, value) in enumerate(zip(given, values, strict=True))
    ]
    return bytes(encode_batch(rows, codec=CODECS[codec]))


def request_body(api_key: int, version: int, values: dict[str, Any]) -> bytes:
    schema = load_request_schema(api_key, version)
    out = io.BytesIO()
    entity_writer(schema)(out, build(schema, values))
    return out.getvalue()


def value_of(future: Future[Any]) -> Any:
    values: list[Any] = []
    future.then(values.append)
    return values[0]
