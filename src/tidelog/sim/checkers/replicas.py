"""Replicas among themselves: leaders, commits, and whether all agree."""

from collections.abc import Callable, Iterable

from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.messages import PartitionKey
from tidelog.replication.replica import Role
from tidelog.sim.checkers.batches import Batch, batches_between, records_between
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.checkers.voters import VoterChecker
from tidelog.sim.world import World

ANYWHERE = 1 << 62
Name = Callable[[PartitionKey], str]


class Known:
    """What was seen of one partition."""

    __slots__ = ("committed", "damaged", "end", "given_up", "leaders", "led", "may_restart_log", "seen")

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}  # by epoch
        self.committed: dict[int, Batch] = {}  # by base offset
        self.end = 0  # after the last of them
        # By node: the last seen process, its epoch and its high watermark. A new process may start further
        # back.
        self.seen: dict[int, tuple[ReplicaDriver, int, int]] = {}
        self.damaged: dict[int, list[int]] = {}  # from where on a node may truncate records, once each
        self.led: dict[int, int] = {}  # by epoch: up to where its leader considered the log committed
        # (last epoch led before, offset): what those leaders had committed from the offset on is given up
        self.given_up: list[tuple[int, int]] = []
        # By node: since which epoch it may drop its whole log, once, before it commits anything.
        self.may_restart_log: dict[int, int] = {}

    def restarts_log(self, node: int, epoch: int) -> bool:
        """Whether a commit in this epoch may be the node's first since it dropped its log."""
        if epoch < self.may_restart_log.get(node, ANYWHERE):
            return False
        del self.may_restart_log[node]
        return True

    def may_go_back(self, node: int, watermark: int) -> bool:
        """Whether records from the high watermark on, or before it, are damaged. All that follow are removed
        with them; earlier damage may still be found.
        """
        offsets = self.damaged.get(node, [])
        found = max((offset for offset in offsets if offset <= watermark), default=None)
        self.damaged[node] = [] if found is None else [offset for offset in offsets if offset < found]
        return found is not None

    def last_seen(self, driver: ReplicaDriver) -> tuple[ReplicaDriver, int, int]:
        return self.seen.get(driver.replica.me, (driver, -1, 0))

    def watermark_of(self, driver: ReplicaDriver) -> int:
        """Up to where its commits count. What a leader said before it lost its records may reach a follower
        only afterwards: it does not commit again what was given up.
        """
        replica = driver.replica
        watermark, epoch = replica.high_watermark, replica.epoch
        if replica.role is Role.LEADER:
            self.led[epoch] = max(self.led.get(epoch, 0), watermark)
            return watermark
        floor = min((floor for last, floor in self.given_up if epoch <= last), default=watermark)
        return min(watermark, max(floor, self.led.get(epoch, 0)))


class ReplicaChecker:
    """Sees every role and every commit of every replica, whatever its mode."""

    def __init__(
        self,
        world: World,
        name: Name = str,
        is_compacted: Callable[[PartitionKey], bool] = lambda key: False,
    ) -> None:
        self._world = world
        self._name = name
        self._is_compacted = is_compacted
        self._voters = VoterChecker()
        self._partitions: dict[PartitionKey, Known] = {}

    def _known(self, key: PartitionKey) -> Known:
        known = self._partitions.get(key)
        if known is None:
            known = self._partitions[key] = Known()
        return known

    def role_changed(self, driver: ReplicaDriver) -> None:
        """One leader per partition and epoch, ever; epochs only rise.

        Two leaders of one epoch could both commit, each with its own half of the replicas.
        """
        replica, name, known = driver.replica, self._name(driver.key), self._known(driver.key)
        process, epoch, watermark = known.last_seen(driver)
        if process is driver and replica.epoch < epoch:
            raise Violation(f"{name}: node {replica.me} went back from epoch {epoch} to {replica.epoch}")
        if process is not driver:
            watermark = 0
        known.seen[replica.me] = driver, replica.epoch, watermark
        if replica.role is not Role.LEADER:
            return
        self._world.note(f"{name}: node {replica.me} leads epoch {replica.epoch}")
        leader = known.leaders.setdefault(replica.epoch, replica.me)
        if leader != replica.me:
            raise Violation(f"{name}: epoch {replica.epoch} is led by {leader} and by {replica.me}")

    def committed(self, driver: ReplicaDriver) -> None:
        """The high watermark never goes back, and committed records never change."""
        replica, name, known = driver.replica, self._name(driver.key), self._known(driver.key)
        watermark = known.watermark_of(driver)
        self._world.note(f"{name}: node {replica.me} watermark {replica.high_watermark}")
        process, _, before = known.last_seen(driver)
        if known.restarts_log(replica.me, replica.epoch) or process is not driver:
            before = 0
        elif watermark < before and not known.may_go_back(replica.me, watermark):
            raise Violation(
                f"{name}: the watermark of node {replica.me} went back from {before} to {watermark}"
            )
        known.seen[replica.me] = driver, replica.epoch, watermark
        known.end = max(known.end, watermark)
        self._voters.committed(driver, watermark, name)
        committed = known.committed
        for base_offset, batch in self._batches(driver, before, watermark):
            if committed.setdefault(base_offset, batch) != batch:
                raise Violation(
                    f"{name} offset {base_offset}: node {replica.me} takes {batch} for committed, "
                    f"before it was {committed[base_offset]}"
                )

    def _batches(self, driver: ReplicaDriver, start: int, end: int) -> list[tuple[int, Batch]]:
        if self._is_compacted(driver.key):
            return records_between(driver.log, start, end)
        if end == driver.replica.high_watermark:
            return batches_between(driver.log, start, end)
        # It counts up to where something was given up only. Other batches may be there since: one of them may
        # begin before that and end after it.
        found = batches_between(driver.log, start, end, may_extend=True)
        return [(base_offset, batch) for base_offset, batch in found if batch[0] <= end]

    def damaged(self, key: PartitionKey, node: int, offset: int) -> None:
        """The node's records from here on are damaged: it may truncate them, once, to fetch them again."""
        self._known(key).damaged.setdefault(node, []).append(offset)

    def elected_uncleanly(self, key: PartitionKey, epoch: int) -> None:
        """If the log is compacted, the replicas that do not follow this epoch's leader yet may drop what they
        have, to copy its log from the start.
        """
        if self._is_compacted(key):
            known = self._known(key)
            known.may_restart_log = {node: epoch for node, seen in known.seen.items() if seen[1] < epoch}

    def forget(self, key: PartitionKey, floor: int) -> None:
        """Everything from ``floor`` on was given up under a fault that allows it: other records may replace
        it, and high watermarks may go back that far.
        """
        known = self._known(key)
        for base_offset in [base for base, batch in known.committed.items() if batch[0] > floor]:
            del known.committed[base_offset]
        known.end = min(known.end, floor)
        known.led = {epoch: min(end, floor) for epoch, end in known.led.items()}
        known.given_up.append((self.last_epoch_led(key), floor))
        self._voters.forget(key, floor)
        for node, (driver, epoch, watermark) in known.seen.items():
            known.seen[node] = driver, epoch, min(watermark, floor)

    def last_epoch_led(self, key: PartitionKey) -> int:
        """The highest epoch of any leader that has written so far. -1: none."""
        return max(self._known(key).leaders, default=-1)

    def agreed_end(self, driver: ReplicaDriver) -> int:
        """Up to where a log equals what was committed: its divergence, or its end."""
        log = driver.log
        found = batches_between(log, log.start_offset, log.end_offset)
        return min(self.divergence(driver.key, log.start_offset, found), log.end_offset)

    def divergence(self, key: PartitionKey, start: int, found: Iterable[tuple[int, Batch]]) -> int:
        """The first committed batch from ``start`` on that is not among those found; ANYWHERE without one."""
        held = dict(found)
        lacking = (
            base_offset
            for base_offset, batch in self._known(key).committed.items()
            if base_offset >= start and held.get(base_offset) != batch
        )
        return min(lacking, default=ANYWHERE)

    def voters(self, key: PartitionKey, since_epoch: int) -> frozenset[int] | None:
        """The voters according to the last committed record; None if there is none."""
        return self._voters.latest(key, since_epoch)

    def committed_end(self, key: PartitionKey) -> int:
        """After the last record that any node considered committed."""
        return self._known(key).end

    def committed_before(self, key: PartitionKey, epoch: int) -> int:
        """After the last record that a leader of an earlier epoch considered committed."""
        return max((end for led, end in self._known(key).led.items() if led < epoch), default=0)
