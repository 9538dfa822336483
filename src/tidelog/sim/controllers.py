"""The controllers alone, under faults: one metadata log, voters that are added and removed, snapshots,
observers.

No brokers and no topics, so that a seed takes little time and thousands can be tried: everything else depends
on this. Clients submit values; each one stays in the image, so that everything acknowledged can be checked at
the end, however many snapshots were made in between.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any
from uuid import UUID

from tidelog.broker.metadata.opening import MetadataSettings, open_metadata
from tidelog.broker.metadata.quorum import MetadataPorts, MetadataQuorum
from tidelog.config import TopicConfig
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import BrokerConfigChanged
from tidelog.controller.snapshot_file import snapshot_named
from tidelog.errors import TidelogError
from tidelog.log.log import Log
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.host import Host, HostPorts
from tidelog.replication.messages import Message, PartitionKey, VoteResponded
from tidelog.replication.replica import Role
from tidelog.replication.voters import Voter, VoterSet
from tidelog.replication.votes import Timing
from tidelog.sim.checkers.batches import end_on_disk
from tidelog.sim.checkers.metadata import MetadataChecker
from tidelog.sim.checkers.replicas import ReplicaChecker
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.disk import Survive
from tidelog.sim.machine import DATA, Machine
from tidelog.sim.network import Network
from tidelog.sim.process import SimServices
from tidelog.sim.world import World

DIRECTORY = f"{DATA}/__cluster_metadata-0"
CONFIG = TopicConfig(segment_bytes=4096, index_interval_bytes=512, segment_index_bytes=1024, flush_messages=1)
TIMING = Timing(founding_ms=3000)
# So impatient that they elect without end, and often several at a time.
HASTY = Timing(
    silence_ms=200, majority_ms=300, trust_ms=100, ask_ms=2, round_ms=100, grace_ms=1, stall_grace_ms=10,
    founding_ms=300,
)  # fmt: skip
TICK_MS = 50
VALUES = "values"  # where the image keeps them


class ControllerMachine(Machine):
    def __init__(self, cluster: "ControllersCluster", node_id: int) -> None:
        super().__init__(cluster.world, cluster.network, node_id)
        self.cluster = cluster
        self.host: Host | None = None
        self.quorum: MetadataQuorum | None = None
        self.on_sent = cluster.sent_by

    def boot(self, services: SimServices) -> None:
        cluster, now_ms = self.cluster, services.now_ms()
        for directory in (DATA, DIRECTORY):
            self.disk.make_directory(directory)
            self.disk.sync_directory(directory.rpartition("/")[0])
        log = Log.open(self.disk, DIRECTORY, CONFIG, clean=False, now_ms=now_ms, same_boot=not self.rebooted)
        self.rebooted = False
        chance = self.world.chance.random
        ports = HostPorts(on_role=cluster.role_changed, on_committed=cluster.replicas.committed)
        host = Host(self.node_id, services, self, chance, ports)
        settings = MetadataSettings(
            Voter(self.node_id), VoterSet.of(cluster.founders), cluster.timing, cluster.snapshot_bytes, 5000
        )
        hears = MetadataPorts(on_change=self._applied, on_voters=self._voters_changed)
        quorum = open_metadata(self.disk, log, settings, services, host, chance, hears)
        self.host, self.quorum = host, quorum
        host.start()
        services.later(TICK_MS, lambda: self._tick(services))

    def _applied(self, image: ClusterImage) -> None:
        if self.quorum is not None:
            self.cluster.metadata.applied(self.node_id, self.quorum.committed_offset, image)

    def _voters_changed(self, voters: VoterSet) -> None:
        if self.quorum is not None:
            self.cluster.check_voters(self.quorum)

    def _tick(self, services: SimServices) -> None:
        if self.quorum is not None:
            self.quorum.tick()
            services.later(TICK_MS, lambda: self._tick(services))

    def drivers(self) -> Mapping[PartitionKey, ReplicaDriver]:
        return {} if self.host is None else self.host.drivers

    def dying(self) -> None:
        if self.quorum is not None:
            self._check_beginning(self.quorum)
        self.host = self.quorum = None

    def _check_beginning(self, quorum: MetadataQuorum) -> None:
        """A snapshot on the same disk holds what the log no longer does: there may be no other copy."""
        start = quorum.driver.log.start_offset
        end = self._snapshot_end()
        if start > end:
            raise Violation(f"the log of node {self.node_id} begins at {start}, its snapshot ends at {end}")

    def _snapshot_end(self) -> int:
        """A snapshot on the disk holds everything before it."""
        names = self.disk.list(DIRECTORY) if self.disk.exists(DIRECTORY) else []
        found = [snapshot_named(entry.name) for entry in names]
        return max((snapshot.end_offset for snapshot in found if snapshot is not None), default=0)

    def lose_power(self, survive: Survive | None = None) -> None:
        super().lose_power(survive)
        for told in self._promised.values():
            held = max(end_on_disk(self.disk, DIRECTORY), self._snapshot_end())
            if held < told:
                raise Violation(
                    f"node {self.node_id} acknowledged everything before {told}, and holds {held} after a "
                    "power failure"
                )

    def receive(self, message: Message) -> None:
        if self.host is not None:
            self.host.receive(message)

    def peer_lost(self, peer: int) -> None:
        if self.host is not None:
            self.host.peer_lost(peer)

    def stand(self) -> None:
        quorum, services = self.quorum, self.services
        if quorum is not None and services is not None and not quorum.election.retired:
            driver, election, chance = quorum.driver, quorum.election, self.world.chance.random()
            driver.voter.elect(election.ask_votes(services.uptime_ms(), chance, driver.tail))

    @property
    def leads(self) -> bool:
        return self.quorum is not None and self.quorum.driver.replica.role is Role.LEADER


class ControllersCluster:
    """``size`` founding controllers, and ``observers`` more that may become some."""

    def __init__(self, seed: int, size: int, observers: int = 0) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.replicas = ReplicaChecker(self.world, lambda key: "metadata")
        self.metadata = MetadataChecker()
        self.founders = range(1, size + 1)
        self.snapshot_bytes = self.world.chance.choice([200, 1000, 4000, 1 << 30])
        self.timing = TIMING
        self.ill_luck = 0.0  # that a voter loses power right after its vote
        self.zeal = 0.0  # that an operator changes the voters of a new leader at once
        self.machines: dict[int, ControllerMachine] = {}
        for node_id in range(1, size + observers + 1):
            self.machines[node_id] = ControllerMachine(self, node_id)
        self.acknowledged: set[int] = set()
        self.sent = 0
        # Disks that all controllers knew in a healthy state, and changes since.
        self._known_disks: dict[int, UUID | None] = {}
        self._wiped = self._changed = False

    def start(self) -> None:
        for machine in self.machines.values():
            machine.start()

    def sent_by(self, machine: Machine, message: Any) -> None:
        """The worst moment to lose power is right after a vote was sent; random faults would hardly ever hit
        it.
        """
        chance = self.world.chance
        if not isinstance(message, VoteResponded) or not message.response.granted or message.response.pre:
            return
        if self.ill_luck and chance.random() < self.ill_luck:
            self.world.note(f"node {machine.node_id} loses power right after its vote")
            self.world.after(0.0, machine.lose_power)
            self.world.after(chance.uniform(0.1, 10), machine.start)

    def _tempt_fate(self) -> None:
        """Nor would they hit the moment when something was acknowledged and has only just been synced."""
        if self.ill_luck and self.world.chance.random() < 0.005:
            self.world.note("everybody loses power right after an acknowledgement")
            for machine in self.machines.values():
                self.world.after(0.0, machine.lose_power)
                self.world.after(self.world.chance.uniform(1, 200), machine.start)

    def role_changed(self, driver: ReplicaDriver) -> None:
        self.replicas.role_changed(driver)
        if driver.replica.role is Role.LEADER and self.world.chance.random() < self.zeal:
            self.world.after(self.world.chance.uniform(0, 3), self.change_voters)

    def calm(self) -> None:
        """No more special faults."""
        self.ill_luck = self.zeal = 0.0
        self.timing = TIMING
        for quorum in self.quorums():
            quorum.election.set_timing(TIMING)

    # --- looking --------------------------------------------------------------------------------------------

    def quorums(self) -> list[MetadataQuorum]:
        return [machine.quorum for machine in self.machines.values() if machine.quorum is not None]

    def leaders(self) -> list[int]:
        return [node_id for node_id, machine in self.machines.items() if machine.leads]

    def leader(self) -> MetadataQuorum | None:
        """The one with the newest epoch, if several consider themselves active."""
        leading = [quorum for quorum in self.quorums() if quorum.driver.replica.role is Role.LEADER]
        return max(leading, key=lambda quorum: quorum.election.epoch, default=None)

    def story(self) -> str:
        lines = []
        for node_id, machine in self.machines.items():
            quorum = machine.quorum
            if quorum is None:
                lines.append(f"node {node_id} is dead")
                continue
            voters = ", ".join(str(voter.voter_id) for voter in quorum.voters.latest)
            state = quorum.election.state.value
            lines.append(f"{quorum.driver.replica.story()} election {state} voters [{voters}]")
        return "\n".join(lines)

    # --- doing ----------------------------------------------------------------------------------------------

    def write(self) -> None:
        """A client submits one value to a controller that considers itself active."""
        active = [machine for machine in self.machines.values() if machine.quorum and machine.quorum.active]
        if not active:
            return
        machine = self.world.chance.choice(active)
        self.sent += 1
        value = self.sent

        def decide(image: ClusterImage) -> Sequence[BrokerConfigChanged]:
            return [BrokerConfigChanged(VALUES, {str(value): ""})]

        def done(error: TidelogError | None) -> None:
            self.world.note(f"value {value}: {error.code.name if error else 'ok'}")
            if error is None:
                self.acknowledged.add(value)
                self._tempt_fate()

        quorum, services = machine.quorum, machine.services
        if quorum is not None and services is not None:
            services.run(lambda: quorum.submit(decide, done))

    def change_voters(self) -> None:
        """An operator adds or removes a controller, or two, at a node that considers itself the leader."""
        leaders, chance = self.leaders(), self.world.chance
        self._look()
        if not leaders or self._wiped:
            return  # While one is known to lack its disk, or what it could not sync, no other is removed.
        self._changed = True
        machine = self.machines[chance.choice(leaders)]
        for _ in range(chance.choice([1, 1, 2])):
            self._change(machine)

    def _change(self, machine: ControllerMachine) -> None:
        leader, services, chance = machine.quorum, machine.services, self.world.chance
        if leader is None or services is None:
            return
        voters = leader.voters.latest
        outside = [node_id for node_id in self.machines if node_id not in voters]
        if outside and (len(voters) < 3 or chance.random() < 0.5):
            node_id = chance.choice(outside)
            other = self.machines[node_id].quorum
            voter = Voter(node_id, other.election.directory if other is not None else None)
            change, name = leader.voters.add, "add"
        else:
            voter = Voter(chance.choice(sorted(voters.ids)))
            change, name = leader.voters.remove, "remove"
        self.world.note(f"operator: {name} {voter.voter_id} at {machine.node_id}")
        services.run(lambda: change(voter, 3000, self._told))

    def check_voters(self, quorum: MetadataQuorum) -> None:
        """One change at a time: with two in flight, a majority of the old set and one of the newest could be
        disjoint.
        """
        if quorum.driver.replica.role is not Role.LEADER:
            return  # It may not know yet what is committed.
        committed, history = quorum.driver.replica.high_watermark, quorum.voters.history
        if history.before(history.latest_offset) != history.before(committed):
            raise Violation(
                f"node {quorum.election.me} changes its voters at {history.latest_offset}, and of earlier "
                f"changes only what lies before {committed} is committed"
            )

    def _told(self, error: TidelogError | None) -> None:
        self.world.note(f"operator: {error.code.name if error else 'done'}")

    def usurp(self) -> None:
        """Some voters become candidates without a pre-vote. It must do no harm: the pre-vote is for
        stability, not for safety.
        """
        chance = self.world.chance
        voting = [
            machine
            for machine in self.machines.values()
            if machine.quorum is not None and machine.quorum.election.may_stand and not machine.leads
        ]
        for machine in chance.sample(voting, min(len(voting), chance.choice([1, 2, 2]))):
            self.world.note(f"node {machine.node_id} stands for election")
            if machine.services is not None:
                machine.services.run(machine.stand)

    def may_fail_syncs(self, machine: Machine) -> bool:
        """Whether the voters can do without this one. After a failed sync its log may have a hole, which
        cannot be told from damage: then it does not count until a majority of the others has readmitted it.
        """
        self._look()
        doubtful, sets = {machine.node_id, *self._doubtful()}, list(self._voter_sets())
        if not sets or any(2 * len(voters - doubtful) <= len(voters) for voters in sets):
            return False
        self._wiped = True
        return True

    def _doubtful(self) -> Iterator[int]:
        """Controllers whose disks fail, that do not count at present, or of which that is not known."""
        for node_id, machine in self.machines.items():
            if machine.damaged or machine.quorum is None or not self._counts(node_id, machine.quorum):
                yield node_id

    def _counts(self, node_id: int, quorum: MetadataQuorum) -> bool:
        """Whether its vote counts, by its own view and by the others': one with an empty disk does not know
        that the others expect another disk.
        """
        directory = quorum.election.directory
        by_others = all(
            node_id not in other.voters.latest or other.voters.latest.counts(node_id, directory)
            for other in self.quorums()
        )
        return by_others and (quorum.election.is_voter or node_id not in quorum.voters.latest)

    def _voter_sets(self) -> Iterator[AbstractSet[int]]:
        """The sets that may be in force, now or after a change that is under way."""
        for quorum in self.quorums():
            voters = quorum.voters.latest.ids
            yield voters
            if self._changed and len(voters) > 1:
                yield from (voters - {voter} for voter in voters)

    def wipe(self) -> None:
        """A controller's disk is replaced by an empty one: one at a time, and only when all know the old one,
        or it could not be told from a new controller (see docs/controllers.md).
        """
        self._look()
        known = [
            node_id
            for node_id, machine in self.machines.items()
            if machine.quorum is not None
            and self._known_disks.get(node_id) == machine.quorum.election.directory
        ]
        if known and not self._wiped and not self._changed:
            machine = self.machines[self.world.chance.choice(known)]
            self.world.note(f"node {machine.node_id} comes back with an empty disk")
            self._wiped = True
            machine.lose_disk()
            self.world.after(self.world.chance.uniform(0, 500), machine.start)

    def _look(self) -> None:
        """Whether all agree on the committed voters."""
        quorums = self.quorums()
        voters = quorums[0].voters.latest if quorums else VoterSet([])
        if len(quorums) < len(self.machines) or voters.returning or self.leader() is None:
            return
        if any(machine.damaged for machine in self.machines.values()):
            return
        for quorum in quorums:
            committed = quorum.voters.history.latest_offset < quorum.driver.replica.high_watermark
            if quorum.voters.latest != voters or not committed or quorum.voters.pending:
                return
            if quorum.election.me in voters and not quorum.election.is_voter:
                return
        self._wiped = self._changed = False
        enough = len(voters) >= 3 and all(voter.directory for voter in voters)
        self._known_disks = {voter.voter_id: voter.directory for voter in voters} if enough else {}

    # --- checking -------------------------------------------------------------------------------------------

    def is_whole(self) -> bool:
        """One leader, all alive and equal, every voter with its disk."""
        leader = self.leader()
        if leader is None or not leader.active or len(self.quorums()) < len(self.machines):
            return False
        voters, end = leader.voters.latest, leader.driver.log.end_offset
        if voters.returning:
            return False
        for quorum in self.quorums():
            replica, election = quorum.driver.replica, quorum.election
            if replica.log.end_offset != end or replica.high_watermark != end:
                return False
            if quorum.voters.latest != voters or election.leader != leader.election.me:
                return False
            if election.me in voters and not election.is_voter:
                return False
        return True

    def check_acknowledged(self) -> None:
        """Everything acknowledged is in the image of every node."""
        for quorum in self.quorums():
            known = quorum.image.broker_configs.get(VALUES, {})
            lost = [value for value in sorted(self.acknowledged) if str(value) not in known]
            if lost:
                raise Violation(f"node {quorum.election.me} lacks acknowledged values: {lost[:5]}")
