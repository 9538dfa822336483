"""One simulation: a phase with faults, in which nothing may be lost, and a healthy one, in which everything
must work again within bounded time.
"""

from collections.abc import Mapping
from typing import Any

from tidelog.broker.coordinators.internal_topics import CONSUMER_OFFSETS
from tidelog.controller.successions import mode_changes
from tidelog.controller.topics import INTERNAL_TOPICS, NewTopic
from tidelog.replication.replica import Role
from tidelog.sim.budget import Budget
from tidelog.sim.checkers import batches
from tidelog.sim.checkers.groups import GroupChecker
from tidelog.sim.checkers.offsets import CommittedOffsets
from tidelog.sim.checkers.promises import Place
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.clients.admin import Admin
from tidelog.sim.clients.client import Client
from tidelog.sim.clients.consumer import SESSION_MS, Consumer
from tidelog.sim.clients.group import GroupOffsets
from tidelog.sim.clients.manager import Manager
from tidelog.sim.clients.member import Member
from tidelog.sim.clients.offset_sender import OffsetSender
from tidelog.sim.clients.old_transactor import OldTransactor
from tidelog.sim.clients.producer import Producer
from tidelog.sim.clients.reader import Reader
from tidelog.sim.clients.transactor import Transactor
from tidelog.sim.cluster import CHORES, SimCluster
from tidelog.sim.collecting import collected_afterwards
from tidelog.sim.controllers_run import ControllersSimulation
from tidelog.sim.controllers_run import draw as draw_controllers
from tidelog.sim.decay import Decay
from tidelog.sim.faults import Nemesis
from tidelog.sim.machine import Machine
from tidelog.sim.operator import Operator
from tidelog.sim.perturbations import Perturbations
from tidelog.sim.plan import BY_MODE, Plan, ProducerPlan, draw
from tidelog.sim.result import RunResult
from tidelog.sim.rot import Rot

TOPIC = "t"
WAIT_MS = 15_000.0  # within which a healthy cluster must recover
SETTINGS = {  # Something should happen within twenty seconds.
    "replica.lag.time.max.ms": 2000,
    # A segment costs the scrubber as much as 128 KB, and with one batch per segment there are thousands.
    "log.scrub.bytes.per.second": 256 << 20,
    "group.min.session.timeout.ms": 1000,
    "group.initial.rebalance.delay.ms": 100,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.heartbeat.interval.ms": 400,
}
TEAM = "team"  # a group of several members
UPSET_MS = (1000, 8000)  # how long a member behaves
SILENT_MS = (500, 6000)
TAKEN_OVER_MS = (2000, 15_000)  # how long a transactional producer lives


CONTROLLERS = "controllers"  # only the quorum that replicates the metadata
MODES = (*BY_MODE, CONTROLLERS)


def run(mode: str, seed: int, **wanted: Any) -> RunResult:
    """One seed of one mode. ``wanted`` fixes parts of the plan."""
    with collected_afterwards():
        try:
            return _run(prepare(mode, seed, wanted))
        finally:
            batches.forget_all()


def prepare(mode: str, seed: int, wanted: Mapping[str, Any]) -> "Simulation | ControllersSimulation":
    """The run before it begins."""
    if mode == CONTROLLERS:
        return ControllersSimulation(seed, draw_controllers(seed, wanted))
    return Simulation(seed, draw(mode, seed, wanted))


def _run(simulation: "Simulation | ControllersSimulation") -> RunResult:
    try:
        return simulation.run()
    except BaseException as error:
        error.add_note("\n".join(list(simulation.world.trace)[-40:]))
        raise


class Simulation:
    def __init__(self, seed: int, plan: Plan) -> None:
        self.plan = plan
        self.cluster = SimCluster(seed, plan.size, plan.controllers, {**SETTINGS, **dict(plan.settings)})
        self.cluster.chores = CHORES
        self.perturbations = Perturbations(seed, plan.perturbed)
        self.cluster.perturbations = self.perturbations
        self.world = self.cluster.world
        self.world.reshuffle(plan.luck)
        self.world.note(f"plan: {plan}")
        self.budget = Budget(self.cluster, self._is_whole)
        self.nemesis = Nemesis(
            self.world,
            self.cluster.network,
            self.cluster.machines,
            only=plan.faults,
            without=plan.without,
            numbers=plan.only_faults,
            pace_ms=plan.pace_ms,
            brokers=self.cluster.brokers,
            replaceable=self._is_replaceable,
            may_fail=lambda machine: self.budget.may_fail(self.cluster.machines[machine.node_id]),
            rot=Rot(self.cluster, self.budget, seed).strike,
            decay=Decay(self.cluster, changing=plan.changing).faults(),
            favourites=self.cluster.leaders,
        )
        self.producers: list[Producer] = []
        self.transactors: list[Transactor] = []
        self.readers: list[Reader] = []
        self.members: list[Member | Consumer] = []
        self.operator = Operator(self.cluster)
        self.admin = Admin(self.cluster, TOPIC, self.cluster.config, plan.mode)
        self.admin.on_created = self._serve_topic
        self.admin.on_deleted = self._leave_topic
        self.manager = Manager(self.cluster, self.admin, self.budget, TOPIC, seed, plan.operations)
        if plan.deaths_confirmed:
            self.cluster.confirm_deaths()

    def run(self) -> RunResult:
        self._begin()
        for _ in range(self.plan.rounds):
            self._suffer()
            self._become_whole()
        self._take_writes()
        self._settle()
        self.cluster.checker.check_end()
        return self._result()

    def _suffer(self) -> None:
        world = self.world
        self.nemesis.rage()
        self.perturbations.active = True
        if self.plan.weather is not None:
            weather, wanted = self.cluster.network.weather, self.plan.weather
            weather.lost, weather.doubled = wanted.lost, wanted.doubled
            weather.late, weather.late_ms = wanted.late, wanted.late_ms
        world.run_until(world.now_ms + self.plan.faults_ms)
        self.nemesis.calm()
        self.perturbations.active = False
        self.admin.stopped = True
        if not self.operator.looks:
            self.operator.start()

    def _begin(self) -> None:
        cluster = self.cluster
        cluster.start()
        replicas = min(3, len(cluster.brokers))
        new = NewTopic(TOPIC, self.plan.partitions, replicas, {}, self.plan.topic_configs)
        cluster.create_topic(new)
        if not self.world.run_while(lambda: TOPIC not in cluster.checker.metadata.newest.topics, WAIT_MS):
            raise Violation("a new cluster creates no topic:\n" + self._story())
        for producer in self.plan.producers:
            self._add_producer(TOPIC, producer)
        for number in range(self.plan.transactors):
            self._add_transactor(f"x{number}")
        for index in range(self.plan.partitions):
            self._add_reader(TOPIC, index)
        if self.plan.members:
            team = GroupChecker(TEAM, TOPIC, self._offsets_are_given_up, SESSION_MS)
            cluster.checker.groups.append(team)
            for _ in range(self.plan.members):
                self._add_member(team)
        if self.plan.administrated:
            self.admin.start()
        if self.plan.changing:
            self.admin.start_changing()
        self.manager.start()

    def _add_producer(self, topic: str, plan: ProducerPlan) -> None:
        history = self.cluster.checker.history(topic, plan.partition)
        producer = Producer(
            self.cluster.client(), history, topic, plan.partition, acks=plan.acks,
            idempotent=plan.idempotent, load=self.plan.load,
        )  # fmt: skip
        self.producers.append(producer)
        producer.start()

    def _add_reader(self, topic: str, index: int) -> None:
        history = self.cluster.checker.history(topic, index)
        anywhere = self.plan.followers_read
        client, checker = self.cluster.client(), self.cluster.checker
        reader = Reader(
            client,
            history,
            topic,
            index,
            anywhere=anywhere,
            transactions=checker.transactions if self.plan.transactors else None,
            group=self._group_of(client, topic, index) if self.plan.groups else None,
            load=self.plan.load,
        )
        self.readers.append(reader)
        reader.start()

    def _group_of(self, client: Client, topic: str, index: int) -> GroupOffsets:
        topic_id = self.cluster.checker.metadata.newest.topics[topic].topic_id
        name = f"g{client.client_id}"
        return GroupOffsets(client, name, topic_id, index, self._offsets_are_given_up, CommittedOffsets(name))

    def _offsets_are_given_up(self) -> bool:
        return (CONSUMER_OFFSETS, 0) in self.cluster.checker.given_up

    def _add_member(self, team: GroupChecker) -> None:
        checker, chance = self.cluster.checker, self.world.chance
        topic_id = checker.metadata.newest.topics[TOPIC].topic_id
        kind = Consumer if self.plan.consumers else Member
        member = kind(self.cluster.client(), team, topic_id, self.plan.partitions, checker.history)
        self.members.append(member)
        member.start()

        def upset() -> None:
            """It dies and is replaced; or it is silent for a while."""
            if not self.nemesis.raging:
                return
            if chance.random() < 0.5:
                member.die()
                self.members.remove(member)
                self._add_member(team)
            else:
                member.silent_until_ms = self.world.now_ms + chance.uniform(*SILENT_MS)
                self.world.after(chance.uniform(*UPSET_MS), upset)

        self.world.after(chance.uniform(*UPSET_MS), upset)

    def _add_transactor(self, name: str) -> None:
        """It will be replaced by another one, which does not know whether it is still alive."""
        checker = self.cluster.checker
        kind = OldTransactor if self.plan.old_transactors else Transactor
        client = self.cluster.client()
        offsets = None
        if self.plan.groups:
            topic_id = checker.metadata.newest.topics[TOPIC].topic_id
            offsets = OffsetSender(client, name, topic_id, TOPIC, self._offsets_are_given_up)
        transactor = kind(
            client, name, TOPIC, self.plan.partitions, checker.history, checker.transactions, offsets
        )
        self.transactors.append(transactor)
        transactor.start()

        def replace() -> None:
            if self.nemesis.raging:
                transactor.gone = True
                self._add_transactor(name)

        self.world.after(self.world.chance.uniform(*TAKEN_OVER_MS), replace)

    def _serve_topic(self, topic: str, new: NewTopic) -> None:
        """A topic was created: one producer and one reader for its first partition."""
        if topic in self.admin.topics:
            self._add_producer(topic, ProducerPlan(0, -1, self.world.chance.random() < 0.5))
            self._add_reader(topic, 0)

    def _leave_topic(self, topic: str) -> None:
        for producer in self.producers:
            producer.stopped |= producer.topic == topic
        for reader in self.readers:
            reader.stopped |= reader.topic == topic

    # --- afterwards -----------------------------------------------------------------------------------------

    def _become_whole(self) -> None:
        """A new topic gets its clients when the administrator has seen it. Clients that came later would not
        be stopped at the end, and the run would wait for a reader that is slower than its producer.
        """
        if not self.world.run_while(lambda: self.admin.pending > 0 or not self._is_whole(), WAIT_MS):
            raise Violation("a healthy cluster is not whole again:\n" + self._story())

    def _is_whole(self) -> bool:
        """All nodes are up, every partition has a leader, all its replicas count and no other
        broker has it.
        """
        image = self.cluster.checker.metadata.newest
        topics = {name for name in image.topics if name not in INTERNAL_TOPICS}
        if set(self.admin.topics) | {TOPIC} != topics or self.cluster.leftovers():
            return False
        if len(image.brokers) < len(self.cluster.brokers):
            return False
        if any(mode_changes.under_way(topic) for topic in image.topics.values()):
            return False
        if self.cluster.checker.damages.there():
            return False
        return self.cluster.checker.is_whole() and not any(broker.fenced for broker in image.brokers.values())

    def _is_replaceable(self, machine: Machine) -> bool:
        return self.budget.may_lose_disk(self.cluster.machines[machine.node_id])

    def _take_writes(self) -> None:
        waiting = {
            producer: producer.acknowledged
            for producer in self.producers
            if producer.acks and not producer.stopped
        }
        ended = {each: each.ended for each in self.transactors if not each.gone}

        def some_wait() -> bool:
            return any(producer.acknowledged <= count for producer, count in waiting.items()) or any(
                transactor.ended <= count for transactor, count in ended.items()
            )

        if not self.world.run_while(some_wait, WAIT_MS):
            raise Violation("a healthy cluster takes no writes:\n" + self._story())

    def _settle(self) -> None:
        """No more writes: readers reach the end, replicas become equal."""
        for producer in self.producers:
            producer.stopped = True
        for transactor in self.transactors:
            transactor.stopped = True
        for reader in self.readers:
            reader.committing = False
            reader.hurry()
        for member in self.members:
            member.silent_until_ms = 0.0
            member.hurry()
        self.world.run_until(self.world.now_ms + 500)
        if not self.world.run_while(lambda: not self._is_settled(), WAIT_MS):
            raise Violation("a healthy cluster does not settle:\n" + self._story())

    def _is_settled(self) -> bool:
        if any(transactor.busy and not transactor.gone for transactor in self.transactors):
            return False
        ends = {
            (place.topic.name, place.number): self._end_of(place) for place in self.cluster.checker.places()
        }
        return (
            None not in ends.values()
            and self._team_has_read(ends)
            and all(
                reader.stopped or reader.position == ends[reader.topic, reader.partition]
                for reader in self.readers
            )
        )

    def _team_has_read(self, ends: Mapping[tuple[str, int], int | None]) -> bool:
        """Every partition belongs to a member, which is at its end."""
        at_end = {
            reader.partition
            for member in self.members
            for reader in member.readers
            if reader.position == ends[TOPIC, reader.partition]
        }
        return not self.members or len(at_end) == self.plan.partitions

    def _end_of(self, place: Place) -> int | None:
        """The end of the partition; None while its replicas disagree."""
        replicas = [driver for _, driver in self.cluster.drivers(place.topic.name, place.number)]
        ends = {end for each in replicas for end in (each.log.end_offset, each.replica.high_watermark)}
        leaders = [driver for driver in replicas if driver.replica.role is Role.LEADER]
        return ends.pop() if len(ends) == 1 and len(leaders) == 1 else None

    def _result(self) -> RunResult:
        world = self.world
        return RunResult(
            self.plan.mode,
            world.seed,
            world.digest(),
            world.steps,
            self.cluster.network.messages,
            sum(producer.sent for producer in self.producers),
            sum(producer.acknowledged for producer in self.producers),
            self.nemesis.struck,
            world.elapsed_ms,
            tuple(world.trace),
        )

    def _story(self) -> str:
        lines = []
        for machine in self.cluster.machines.values():
            if machine.node is None:
                lines.append(f"node {machine.node_id} is dead")
            else:
                lines += [driver.replica.story() for driver in machine.node.host.drivers.values()]
        return "\n".join(lines)
