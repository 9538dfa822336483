"""Simulated clients. A producer sends one value after the other to the leader it knows of and retries what
is unclear.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.batch import parse_header
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.hosted import Hosted
from tidelog.sim.process import SimServices

if TYPE_CHECKING:
    from tidelog.sim.cluster import SimCluster

REQUEST_TIMEOUT_MS = 3000


class Producer:
    """Without idempotence: an unclear answer may mean that the value is there, so a retry may double it."""

    def __init__(self, cluster: "SimCluster", name: int, topic: str, partition: int, acks: int) -> None:
        self._cluster = cluster
        self._name = name
        self._topic = topic
        self._partition = partition
        self._acks = acks
        self.sent = 0
        self.acknowledged: list[tuple[int, int, int]] = []  # (value, base offset, CRC of its batch)
        self.stopped = False

    def start(self) -> None:
        self._next()

    def _next(self) -> None:
        if self.stopped:
            return
        world = self._cluster.world
        world.after(world.chance.expovariate(1 / 20.0), self._send)

    def _send(self) -> None:
        if self.stopped:
            return
        target = self._leader()
        if target is None:
            self._next()
            return
        services, hosted = target
        self.sent += 1
        value = self.sent
        answered = False

        def done(offset: int, error: ErrorCode, crc: int = 0) -> None:
            nonlocal answered
            if answered:
                return
            answered = True
            self._cluster.world.note(f"producer {self._name} value {value} at {offset}: {error.name}")
            if error is ErrorCode.NONE:
                self.acknowledged.append((value, offset, crc))
            self._next()

        self._cluster.world.after(REQUEST_TIMEOUT_MS, lambda: done(-1, ErrorCode.REQUEST_TIMED_OUT))
        services.run(lambda: self.append(services, hosted, value, done))

    def _leader(self) -> tuple[SimServices, Hosted] | None:
        """Any node that takes itself for the leader: clients' metadata may be old."""
        leading = []
        for node, hosted in self._cluster.hosted(self._topic, self._partition):
            if (
                node.node is not None
                and node.services is not None
                and node.node.leads(hosted.key) is not None
            ):
                leading.append((node.services, hosted))
        return self._cluster.world.chance.choice(leading) if leading else None

    def append(
        self, services: SimServices, hosted: Hosted, value: int, done: Callable[[int, ErrorCode, int], None]
    ) -> None:
        """What a broker does with a produce request, less the wire."""
        replica = hosted.replica
        error = replica.before_append(self._acks)
        if error is not ErrorCode.NONE:
            done(-1, error, 0)
            return
        offset, now_ms = hosted.log.end_offset, services.now_ms()
        record = Record(offset, now_ms, None, b"%d/%d" % (self._name, value), ())
        try:
            batch = encode_batch([record], leader_epoch=replica.epoch)
            hosted.append(memoryview(batch), offset, now_ms)
        except TidelogError as refusal:
            done(-1, refusal.code, 0)
            return
        crc = parse_header(batch).crc
        deadline_ms = now_ms + REQUEST_TIMEOUT_MS
        hosted.run(
            replica.wait(hosted.log.end_offset, self._acks, deadline_ms, lambda code: done(offset, code, crc))
        )
