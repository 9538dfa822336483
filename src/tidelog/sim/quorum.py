"""A group of voters that replicate one log by vote, under faults: the ground everything else stands on."""

from collections.abc import Callable
from typing import Any

from tidelog.config import TopicConfig
from tidelog.errors import ErrorCode, TidelogError
from tidelog.invariant import invariant
from tidelog.log.log import Log
from tidelog.protocol.batch import parse_header
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.ballot_file import BallotFile
from tidelog.replication.election import Election, Timing
from tidelog.replication.host import Host
from tidelog.replication.hosted import Hosted
from tidelog.replication.messages import Bytes, FetchGot, Message, VoteAnswered
from tidelog.replication.policies import BY_NAME
from tidelog.replication.replica import Limits, Replica, Role
from tidelog.replication.voters import VoterSet
from tidelog.sim.checkers import Violation, batches_between
from tidelog.sim.disk import SimulatedDisk, everything
from tidelog.sim.network import Network, Weather
from tidelog.sim.process import SimServices
from tidelog.sim.world import World

KEY = "log"
DIRECTORY = "data/log-0"
CONFIG = TopicConfig(segment_bytes=4096, index_interval_bytes=512, segment_index_bytes=1024, flush_messages=1)


class QuorumNode:
    """One voter: a disk that outlives it, and a process that may die."""

    def __init__(self, cluster: "QuorumCluster", node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.disk = SimulatedDisk()
        self.services: SimServices | None = None
        self.host: Host | None = None
        self.hosted: Hosted | None = None
        self.clean = False

    @property
    def alive(self) -> bool:
        return self.services is not None

    def start(self) -> None:
        world = self.cluster.world
        self.services = services = SimServices(world)
        services.disk_delay_ms = self.cluster.disk_delay_ms
        world.note(f"node {self.node_id} starts")
        self.disk.make_directory("data")
        self.disk.make_directory(DIRECTORY)
        self.disk.sync_directory("")
        self.disk.sync_directory("data")
        log = Log.open(self.disk, DIRECTORY, CONFIG, clean=False, now_ms=services.now_ms())
        # What recovery found may be in the page cache only; a voter counts it after it is synced.
        ticket = log.begin_sync()
        ticket.run()
        log.finish_sync(ticket, services.now_ms())
        ballots = BallotFile(self.disk, DIRECTORY)
        ballot = ballots.load()
        voters = VoterSet.of(self.cluster.nodes)
        chance = world.chance.random
        election = Election(self.node_id, voters, ballot, Timing(), services.uptime_ms(), chance())
        replica = Replica(self.node_id, log, BY_NAME["quorum"], Limits(durable=True))
        replica.replicas = tuple(sorted(voters.ids))
        replica.epoch = ballot.epoch
        self.host = Host(self.node_id, services, self, chance)
        self.hosted = Hosted(KEY, log, replica, services, self.host, election, ballots)
        self.host.add(self.hosted)
        self.host.on_committed = self.cluster.checker.committed
        self.host.on_role = self.cluster.checker.role_changed
        self.host.start()
        self.cluster.network.join(self.node_id, self._deliver, self._peer_lost)

    def _deliver(self, message: Message) -> None:
        services, host = self.services, self.host
        if services is not None and host is not None:
            services.run(lambda: host.receive(message))

    def _peer_lost(self, peer: int) -> None:
        services, host = self.services, self.host
        if services is not None and host is not None:
            services.run(lambda: host.peer_lost(peer))

    def send(self, to: int, message: Message) -> None:
        self.cluster.network.send(self.node_id, to, detached(message))
        if isinstance(message, VoteAnswered) and message.got.granted and not message.got.pre:
            self._tempt_fate()

    def _tempt_fate(self) -> None:
        """The worst moment to lose power is right after a vote left; chance alone would hardly ever find
        it.
        """
        world = self.cluster.world
        if world.chance.random() < self.cluster.ill_luck:
            world.note(f"node {self.node_id} loses power right after its vote")
            world.after(0.0, self.lose_power)
            world.after(world.chance.uniform(1, 20), lambda: self.start() if not self.alive else None)

    def kill(self) -> None:
        """The process dies; the machine, and with it everything written, lives on."""
        self._end(everything)

    def lose_power(self) -> None:
        """Unsynced data is lost or torn, as chance will have it."""
        chance = self.cluster.world.chance
        self._end(lambda path, unsynced: chance.randint(0, unsynced), noticed=False)

    def _end(self, survive: Callable[[str, int], int], *, noticed: bool = True) -> None:
        if self.services is None:
            return
        self.services.die()
        self.services = self.host = self.hosted = None
        self.disk.crash(survive, survive)
        self.disk.story.clear()
        self.cluster.network.leave(self.node_id, noticed=noticed)


def detached(message: Any) -> Any:
    """Records as they are at the moment of sending: a file may be truncated before the message arrives."""
    if isinstance(message, FetchGot):
        parts = [
            part if part.records is None else part._replace(records=Bytes(part.records.read()))
            for part in message.parts
        ]
        return message._replace(parts=parts)
    return message


class QuorumChecker:
    """Looks at every role change and every commit, from outside."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._leaders: dict[int, int] = {}  # epoch → leader
        self.committed_batches: dict[
            int, tuple[int, int, int]
        ] = {}  # base offset → (next offset, epoch, crc)
        self._watermarks: dict[int, tuple[Hosted, int]] = {}

    def role_changed(self, hosted: Hosted) -> None:
        replica = hosted.replica
        if replica.role is Role.LEADER:
            self._world.note(f"node {replica.me} leads epoch {replica.epoch} from {hosted.log.end_offset}")
            known = self._leaders.setdefault(replica.epoch, replica.me)
            if known != replica.me:
                raise Violation(f"epoch {replica.epoch} is led by {known} and {replica.me}")

    def committed(self, hosted: Hosted) -> None:
        replica = hosted.replica
        self._world.note(f"node {replica.me} watermark {replica.high_watermark}")
        process, before = self._watermarks.get(replica.me, (hosted, 0))
        start = before if process is hosted else 0
        if process is hosted and replica.high_watermark < before:
            raise Violation(
                f"the watermark of {replica.me} went back from {before} to {replica.high_watermark}"
            )
        self._watermarks[replica.me] = (hosted, replica.high_watermark)
        for base_offset, found in batches_between(hosted.log, start, replica.high_watermark):
            known = self.committed_batches.setdefault(base_offset, found)
            if known != found:
                raise Violation(
                    f"offset {base_offset}: {replica.me} committed {found}, before it was {known}"
                )


class QuorumCluster:
    def __init__(self, seed: int, size: int) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.checker = QuorumChecker(self.world)
        self.nodes: dict[int, QuorumNode] = {}
        for node_id in range(1, size + 1):
            self.nodes[node_id] = QuorumNode(self, node_id)
        self.acknowledged: dict[int, tuple[int, int]] = {}  # value → (base offset, CRC of its batch)
        # Slow disks stretch the time in which something is written and not yet synced.
        self.disk_delay_ms = self.world.chance.choice([(0.05, 2.0), (0.05, 2.0), (2.0, 30.0)])
        self.sent = 0
        self.ill_luck = 0.3  # that a voter loses power right after its vote; 0 in the calm phase

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    def leader(self) -> QuorumNode | None:
        leading = [
            node for node in self.nodes.values() if node.hosted and node.hosted.replica.role is Role.LEADER
        ]
        return max(leading, key=lambda node: node.hosted.replica.epoch, default=None)  # type: ignore[union-attr]

    def write(self) -> None:
        """A client sends one value to whoever it takes for the leader."""
        leading = [
            node for node in self.nodes.values() if node.hosted and node.hosted.replica.role is Role.LEADER
        ]
        if not leading:
            return
        node = self.world.chance.choice(leading)
        services, hosted = node.services, node.hosted
        if services is None or hosted is None:
            return
        self.sent += 1
        value = self.sent
        services.run(lambda: self._append(services, hosted, value))

    def _append(self, services: SimServices, hosted: Hosted, value: int) -> None:
        replica = hosted.replica
        if replica.before_append(-1) is not ErrorCode.NONE:
            return
        offset = hosted.log.end_offset
        batch = encode_batch(
            [Record(offset, services.now_ms(), None, b"%d" % value, ())], leader_epoch=replica.epoch
        )

        def done(error: ErrorCode) -> None:
            self.world.note(f"value {value} at {offset}: {error.name}")
            if error is ErrorCode.NONE:
                self.acknowledged[value] = offset, parse_header(batch).crc

        try:
            hosted.append(memoryview(batch), offset, services.now_ms(), services.now_ms())
        except TidelogError:
            return
        hosted.wait(hosted.log.end_offset, -1, 5000, done)

    def check_acknowledged(self) -> None:
        """Everything acknowledged lies in the log, at the offset that was told."""
        leader = self.leader()
        if leader is None or leader.hosted is None:
            raise Violation("a healthy group has no leader")
        log = leader.hosted.log
        found = {base: batch[2] for base, batch in batches_between(log, log.start_offset, log.end_offset)}
        for value, (offset, crc) in self.acknowledged.items():
            if found.get(offset) != crc:
                raise Violation(f"value {value}, acknowledged at {offset}, is lost")

    def check_converged(self) -> None:
        """After the faults: one leader, everybody equal."""
        ends = {node.hosted.log.end_offset for node in self.nodes.values() if node.hosted}
        marks = {node.hosted.replica.high_watermark for node in self.nodes.values() if node.hosted}
        if len(ends) != 1 or marks != ends:
            stories = [node.hosted.replica.story() for node in self.nodes.values() if node.hosted]
            raise Violation("the voters did not converge:\n" + "\n".join(stories))


def run_quorum(
    seed: int, *, size: int = 3, fault_ms: float = 20_000, calm_ms: float = 10_000
) -> dict[str, Any]:
    """One run: a phase with faults, then a healthy one in which everything must come right."""
    cluster = QuorumCluster(seed, size)
    try:
        return _run(cluster, fault_ms, calm_ms)
    except BaseException as error:
        error.add_note("\n".join(list(cluster.world.trace)[-40:]))
        raise


def _run(cluster: QuorumCluster, fault_ms: float, calm_ms: float) -> dict[str, Any]:
    world, chance = cluster.world, cluster.world.chance
    cluster.start()
    end_ms = world.now_ms + fault_ms
    weather = cluster.network.weather
    weather.lost = chance.choice([0.0, 0.0, 0.01, 0.1])
    weather.doubled = chance.choice([0.0, 0.02, 0.1])
    weather.late = chance.choice([0.0, 0.02, 0.1])

    def load() -> None:
        if world.now_ms < end_ms:
            cluster.write()
            world.after(chance.expovariate(1 / 15.0), load)

    def trouble() -> None:
        if world.now_ms < end_ms:
            _one_fault(cluster)
            world.after(chance.uniform(100, 1500), trouble)

    load()
    world.after(chance.uniform(500, 2000), trouble)
    world.run_until(end_ms)
    return _calm_down(cluster, calm_ms)


def _one_fault(cluster: QuorumCluster) -> None:
    world, chance = cluster.world, cluster.world.chance
    node = chance.choice(list(cluster.nodes.values()))
    kind = chance.choice(["kill", "power", "pause", "cut", "heal", "slow", "start", "start", "all"])
    world.note(f"fault {kind} {node.node_id}")
    if kind == "kill":
        node.kill()
    elif kind == "power":
        node.lose_power()
    elif kind == "pause" and node.services is not None:
        services = node.services
        services.pause()
        world.after(chance.uniform(10, 3000), services.resume)
    elif kind == "cut":
        for other in cluster.nodes:
            if other != node.node_id and chance.random() < 0.7:
                cluster.network.cut(node.node_id, other)
                if chance.random() < 0.8:
                    cluster.network.cut(other, node.node_id)
    elif kind == "heal":
        cluster.network.heal()
    elif kind == "slow":
        cluster.network.slow[node.node_id] = chance.uniform(5, 200)
    elif kind == "all":
        for each in cluster.nodes.values():
            each.lose_power()
    elif kind == "start":
        for each in cluster.nodes.values():
            if not each.alive:
                each.start()


def _calm_down(cluster: QuorumCluster, calm_ms: float) -> dict[str, Any]:
    world = cluster.world
    world.note("calm")
    cluster.ill_luck = 0.0
    cluster.network.heal()
    cluster.network.weather = Weather()
    for node in cluster.nodes.values():
        if node.services is not None:
            node.services.resume()
        else:
            node.start()
    world.run_until(world.now_ms + calm_ms)
    before = len(cluster.acknowledged)
    for _ in range(10):
        cluster.write()
        world.run_until(world.now_ms + 200)
    if len(cluster.acknowledged) < before + 10:
        raise Violation(
            f"only {len(cluster.acknowledged) - before} of 10 writes to a healthy group were acknowledged"
        )
    world.run_until(world.now_ms + 2000)
    cluster.check_converged()
    cluster.check_acknowledged()
    invariant(cluster.sent > 0, "a run without load proves nothing")
    return {
        "seed": world.seed,
        "digest": world.digest(),
        "steps": world.steps,
        "messages": cluster.network.messages,
        "sent": cluster.sent,
        "acknowledged": len(cluster.acknowledged),
        "simulated_ms": world.elapsed_ms,
        "trace": list(world.trace),
    }
