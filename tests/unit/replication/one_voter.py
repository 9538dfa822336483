"""One voter with its log and its elections, whose followers the test plays."""

from typing import Any, cast

from tidelog.config import TopicConfig
from tidelog.errors import ErrorCode
from tidelog.log.log import Log
from tidelog.protocol.records import ControlType, Record, control_key, encode_batch
from tidelog.replication.attachments.seal import RECHECK_MS, Pausing
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.effects import ProposeInSync
from tidelog.replication.host import Host, HostPorts
from tidelog.replication.limits import Limits
from tidelog.replication.modes import MODES
from tidelog.replication.replica import Replica
from tidelog.sim.disk import SimulatedDisk
from unit.replication.replica_pair import NOW_MS, Clock

ALL = (1, 2, 3)
ACKS_ALL = -1


class Silent:
    def send(self, to: int, message: Any) -> None: ...


class Voter:
    """One of three voters, driven by the test; the others are what the test says they have fetched."""

    def __init__(self, mode: str = "quorum", **limits: Any) -> None:
        self.clock = Clock()
        self.proposed: list[ProposeInSync] = []
        ports = HostPorts(on_proposal=lambda driver, proposal: self.proposed.append(proposal))
        host = Host(1, self.clock, Silent(), lambda: 0.5, ports)
        disk = SimulatedDisk()
        disk.make_directory("data")
        self.log = Log.open(disk, "data/t-0", TopicConfig(), clean=False, now_ms=NOW_MS)
        self.replica = Replica(1, self.log, MODES[mode].policy, Limits(**limits))
        self.driver = ReplicaDriver(("t", 0), self.log, self.replica, self.clock, host)
        self.driver.adopt(MODES[mode])
        host.add(self.driver)
        self.sealing = cast(Pausing, self.driver.seal)

    def lead(self, epoch: int) -> "Voter":
        """Elected: as ``attachments.voter`` does it."""
        self.driver.lead(epoch, ALL, ALL, -1)
        self.sealing.found()
        self.append(control=ControlType.LEADER_CHANGE)
        self.sealing.began()
        return self

    def append(self, control: ControlType | None = None) -> None:
        offset, epoch = self.log.end_offset, self.replica.epoch
        key = None if control is None else control_key(control)
        record = Record(offset, NOW_MS, key, b"", ())
        batch = encode_batch([record], leader_epoch=epoch, control=control is not None)
        self.driver.append(memoryview(batch), offset, NOW_MS, NOW_MS)

    def fetched(self, follower: int, offset: int, start: int = 0) -> None:
        last_epoch = self.log.epochs.epoch_at(offset - 1)
        answer = self.replica.fetched(follower, self.replica.epoch, offset, last_epoch, start, self.clock.ms)
        assert answer.error is ErrorCode.NONE
        assert answer.diverging is None
        self.driver.run(answer.effects)

    def look(self) -> None:
        self.clock.settle()
        self.clock.advance(2 * RECHECK_MS)

    @property
    def takes_records(self) -> bool:
        return self.replica.before_append(ACKS_ALL) is ErrorCode.NONE
