"""A leader and a follower in one process, with time and messages in the test's hands."""

from collections import deque
from collections.abc import Callable
from typing import Any

from tidelog.config import TopicConfig
from tidelog.log.log import Log
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.host import Host, HostPorts
from tidelog.replication.limits import Limits
from tidelog.replication.messages import FetchAsk, FetchGot, Message
from tidelog.replication.modes import MODES
from tidelog.replication.replica import Replica
from tidelog.sim.disk import SimulatedDisk

NOW_MS = 1_700_000_000_000
LEADER, FOLLOWER = 1, 2


class Clock:
    """Time and work of both nodes, in the test's hands."""

    def __init__(self) -> None:
        self.ms = 0
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[int, int, Callable[[], None]]] = []

    def now_ms(self) -> int:
        return NOW_MS + self.ms

    def perturb(self, name: str) -> bool:
        return False

    def uptime_ms(self) -> int:
        return self.ms

    def new_uuid(self) -> Any:
        raise NotImplementedError

    def soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def in_turn(self, callback: Callable[[], None], *, urgent: bool = False) -> None:
        self.soon(callback)

    def later(self, delay_ms: float, callback: Callable[[], None]) -> Any:
        self._timers.append((self.ms + int(delay_ms), len(self._timers), callback))
        return self

    def cancel(self) -> None: ...

    def offload(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.soon(lambda: done(work()))

    def settle(self) -> None:
        while self._soon:
            self._soon.popleft()()

    def advance(self, milliseconds: int) -> None:
        end = self.ms + milliseconds

        def first_due() -> list[tuple[int, int, Callable[[], None]]]:
            return sorted((timer for timer in self._timers if timer[0] <= end), key=lambda timer: timer[:2])

        while due := first_due():
            self._timers.remove(due[0])
            self.ms = max(self.ms, due[0][0])
            due[0][2]()
            self.settle()
        self.ms = end


class Pair:
    """A leader and a follower of some partitions, and everything they say to each other."""

    def __init__(self, partitions: int = 1) -> None:
        self.clock = Clock()
        self.said: list[tuple[int, Message]] = []
        self.deaf = False  # Whether what is said is lost.
        self.one_way_ms = 0
        self.bytes_per_ms = 0  # 0: as many as you like. One response after the other.
        self._line_free_ms = 0
        self.epochs = {LEADER: 7, FOLLOWER: 7}  # as each of them says
        self.registered = -1  # as the controllers say of everybody
        self.begins: list[int] = []  # where the follower's log begins when it commits
        self.hosts = {me: self._host(me) for me in (LEADER, FOLLOWER)}
        self.keys = [("t", index) for index in range(partitions)]
        self.disks = {me: SimulatedDisk() for me in self.hosts}
        for me, host in self.hosts.items():
            self.disks[me].make_directory("data")
            for key in self.keys:
                log = Log.open(self.disks[me], f"data/t-{key[1]}", TopicConfig(), clean=False, now_ms=NOW_MS)
                replica = Replica(me, log, MODES["isr"].policy, Limits(min_in_sync=1))
                driver = ReplicaDriver(key, log, replica, self.clock, host)
                driver.adopt(MODES["isr"])
                host.add(driver)
            host.start()
        self.begin_epoch(0)

    def _host(self, me: int) -> Host:
        def committed(driver: ReplicaDriver) -> None:
            if me == FOLLOWER:
                self.begins.append(driver.log.start_offset)

        ports = HostPorts(lambda: self.epochs[me], lambda broker: self.registered, committed)
        return Host(me, self.clock, _Peers(self, me), lambda: 0.5, ports)

    def begin_epoch(self, epoch: int) -> None:
        for key in self.keys:
            self.at(LEADER, key).lead(epoch, (1, 2), (1, 2), epoch)
            self.at(FOLLOWER, key).follow(epoch, LEADER, (1, 2), epoch)
        self.clock.settle()

    def at(self, me: int, key: tuple[str, int]) -> ReplicaDriver:
        return self.hosts[me].drivers[key]

    def append(self, index: int = 0, value: bytes = b"x") -> None:
        driver = self.at(LEADER, self.keys[index])
        offset = driver.log.end_offset
        batch = encode_batch([Record(offset, NOW_MS, None, value, ())], leader_epoch=driver.replica.epoch)
        driver.append(memoryview(batch), offset, NOW_MS, NOW_MS)

    def ends(self) -> list[tuple[int, int]]:
        """(leader's, follower's) log end of each partition."""
        return [
            (self.at(LEADER, key).log.end_offset, self.at(FOLLOWER, key).log.end_offset) for key in self.keys
        ]

    def asks(self) -> list[FetchAsk]:
        return [message for _, message in self.said if isinstance(message, FetchAsk)]

    def responses(self) -> list[FetchGot]:
        return [message for _, message in self.said if isinstance(message, FetchGot)]

    def deliver(self, to: int, message: Message) -> None:
        delay_ms = self.one_way_ms + self._transfer_ms(message)
        if delay_ms:
            self.clock.later(delay_ms, lambda: self.hosts[to].receive(message))
        else:
            self.clock.soon(lambda: self.hosts[to].receive(message))

    def _transfer_ms(self, message: Message) -> int:
        if not self.bytes_per_ms or not isinstance(message, FetchGot):
            return 0
        size = sum(part.records.size for part in message.parts if part.records is not None)
        begins_ms = max(self.clock.ms, self._line_free_ms)
        self._line_free_ms = begins_ms + size // self.bytes_per_ms
        return self._line_free_ms - self.clock.ms


class _Peers:
    def __init__(self, pair: Pair, me: int) -> None:
        self._pair = pair

    def send(self, to: int, message: Message) -> None:
        self._pair.said.append((to, message))
        if not self._pair.deaf and to in self._pair.hosts:
            self._pair.deliver(to, message)
