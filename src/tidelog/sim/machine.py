"""A machine: a disk and a clock that outlive its process, and the process that may die.

Subclasses define what runs on it: :meth:`Machine.boot` opens the disk and builds the process,
:meth:`Machine.receive` and :meth:`Machine.peer_lost` are its network side.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tidelog.errors import StorageError
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.messages import Bytes, FetchAsk, FetchGot, PartitionKey
from tidelog.sim.acknowledged import Acknowledged
from tidelog.sim.disk import SimulatedDisk, Survive
from tidelog.sim.network import Network
from tidelog.sim.process import Clock, SimServices
from tidelog.sim.world import World

DATA = "data"
SYNC = "sync"  # as an operation of a disk
DISK_DELAY_MS = (0.05, 2.0)


class Machine:
    def __init__(self, world: World, network: Network, node_id: int) -> None:
        self.world = world
        self.network = network
        self.node_id = node_id
        self.disk = SimulatedDisk(tells=False)
        self.clock = Clock(world)
        self.disk.now_ms = self.clock.wall_ms
        self.disk_delay_ms = DISK_DELAY_MS
        self.services: SimServices | None = None  # None: no process runs
        self.refuses = False  # connections: the process has ended, and the machine is on
        self.forgot = False  # unsynced data is lost, and not reported yet
        self.rebooted = False  # it was off, and some log was not checked since
        self.metadata_unchecked = False  # it was off, and its metadata log was not checked since
        self.doubtful = False  # a sync of the last process has failed: what was not synced may be lost
        self.dropped: set[str] = set()  # files that lack what a process before could not sync
        self.wiped = False  # everything is lost, and not reported yet
        self.damaged = False  # its disk has failed; the process must be restarted after the repair
        self.must_stay_on = False  # a bit has flipped in a batch that a power failure could have removed, too
        self.lied = False  # its disk reports syncs that it has not done
        self.decayed = False  # whether a bit has ever flipped on its disk
        # Faults at the worst moment watch everything that is sent.
        self.on_sent: Callable[[Machine, Any], None] | None = None
        self.ambush: Callable[[Any], bool] | None = None  # loses power right after such a message was sent
        self._acknowledged = Acknowledged()  # by the fetches of this process
        self._promised: dict[PartitionKey, int] = {}  # what its last process left of that on the disk

    # --- for subclasses -------------------------------------------------------------------------------------

    def boot(self, services: SimServices) -> None:
        """Open the disk and start. A StorageError ends the process."""
        raise NotImplementedError

    def receive(self, message: Any) -> None:
        raise NotImplementedError

    def peer_lost(self, peer: int) -> None:
        raise NotImplementedError

    def drivers(self) -> Mapping[PartitionKey, ReplicaDriver]:
        """The replicas of its process."""
        raise NotImplementedError

    def dying(self) -> None:
        """The process is about to end."""

    # --- life and death -------------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        return self.services is not None

    @property
    def may_lose_writes(self) -> bool:
        """Whether damage to a batch that was not synced could not be told from what its next process lacks
        for another reason.
        """
        return self.rebooted or self.doubtful or SYNC in self.disk.failing

    def start(self) -> None:
        if self.services is not None:
            return
        services = self.services = SimServices(self.world, self.clock)
        services.disk_delay_ms = self.disk_delay_ms
        self._acknowledged, self._promised = Acknowledged(), {}
        self.world.note(f"node {self.node_id} starts")
        try:
            self.boot(services)
        except StorageError as error:
            self.world.note(f"node {self.node_id} cannot start: {error.message}")
            self._end_process()
            return
        self.refuses = False
        self.network.join(self.node_id, self._deliver, self._peer_lost)

    def _deliver(self, message: Any) -> None:
        services = self.services
        if services is None:
            return
        if services.paused:
            services.hold(lambda: self.receive(message))
        else:
            self.receive(message)

    def _peer_lost(self, peer: int) -> None:
        services = self.services
        if services is not None:
            services.run(lambda: self.peer_lost(peer))

    def send(self, to: int, message: Any, *, in_order: bool = False) -> None:
        if type(message) is FetchAsk:
            self._acknowledged.sent(message.items, self.drivers())
        self.network.send(self.node_id, to, detached(message), in_order=in_order)
        if self.on_sent is not None:
            self.on_sent(self, message)
        if self.ambush is not None and self.ambush(message):
            self._spring(type(message).__name__)

    def _spring(self, what: str) -> None:
        self.ambush = None
        services = self.services

        def strike() -> None:
            if self.services is services:
                self.world.note(f"node {self.node_id} loses power right after its {what}")
                self.lose_power()
                self.world.after(self.world.chance.uniform(1, 100), self.start)

        self.world.after(0.0, strike)

    def kill(self) -> None:
        """The process dies; the machine, and with it everything written, stays."""
        if self.services is not None:
            self._end_process()
            self.refuses = True
            self.network.leave(self.node_id, noticed=True)

    def lose_power(self, survive: Survive | None = None) -> None:
        """Unsynced data is lost or torn, by default at random; no connection closes."""
        if self.services is not None:
            self._end_process()
            self.network.leave(self.node_id, noticed=False)
        self.refuses = False
        survive = survive or (lambda _, unsynced: self.world.chance.randint(0, unsynced))
        self.disk.crash(survive, survive)
        self.forgot = self.rebooted = self.metadata_unchecked = True

    def lose_disk(self) -> None:
        """The machine returns with an empty disk."""
        self.lose_power()
        self.disk.wipe()
        self.wiped = True
        self._promised = {}

    def _end_process(self) -> None:
        services = self.services
        if services is not None:
            self._promised = self._acknowledged.held(self.drivers())
            self.dying()
            services.die()
            self.services = None
            self.dropped.update(self.disk.process_died())

    def pause(self) -> None:
        if self.services is not None:
            self.services.pause()

    def resume(self) -> None:
        if self.services is not None and self.services.paused:
            self.services.resume()

    def lie(self, about: Callable[[str], bool]) -> None:
        """The disk reports syncs of these files that it has not done."""
        self.lied = True
        self.disk.lies = about

    def stop_lying(self) -> None:
        if self.lied:
            self.lied = False
            self.disk.stop_lying()

    def repair(self) -> None:
        """The disk is repaired. A failed log stays so until the process is restarted."""
        self.stop_lying()
        self.disk.failing.clear()
        self.disk.capacity_bytes = None
        self.disk_delay_ms = DISK_DELAY_MS
        if self.services is not None:
            self.services.disk_delay_ms = self.disk_delay_ms


def detached(message: Any) -> Any:
    """Records at the time of sending: a file may be truncated before the message arrives."""
    if type(message) is not FetchGot or not message.parts:
        return message
    parts = [
        part if part.records is None else part._replace(records=Bytes(bytes(part.records.read())))
        for part in message.parts
    ]
    return FetchGot(message.sender, message.generation, message.error, parts)
