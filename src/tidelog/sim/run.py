"""One simulation: a phase with faults, in which nothing may be lost, and a healthy one, in which everything
must work again within bounded time.
"""

from collections.abc import Mapping
from typing import Any

from tidelog.controller import mode_changes
from tidelog.controller.topics import TopicWish
from tidelog.replication.replica import Role
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.clients.admin import Admin
from tidelog.sim.clients.producer import Producer
from tidelog.sim.clients.reader import Reader
from tidelog.sim.cluster import SimCluster
from tidelog.sim.collecting import collected_afterwards
from tidelog.sim.controllers import run_controllers
from tidelog.sim.faults import Nemesis
from tidelog.sim.machine import Machine
from tidelog.sim.plan import BY_MODE, Plan, ProducerPlan, draw
from tidelog.sim.result import RunResult

TOPIC = "t"
WAIT_MS = 15_000.0  # within which a healthy cluster must be whole again
# Not yet: a damaged segment is neither noticed nor restored by the cluster itself.
LEFT_OUT = ("flipped bit",)
SETTINGS = {"replica.lag.time.max.ms": 2000}  # In twenty seconds something shall happen.


CONTROLLERS = "controllers"  # nothing but the quorum that replicates the metadata
MODES = (*BY_MODE, CONTROLLERS)


def run(mode: str, seed: int, **wanted: Any) -> RunResult:
    """One seed of one mode. ``wanted`` fixes parts of the plan that the seed would draw."""
    with collected_afterwards():
        return run_controllers(seed, **wanted) if mode == CONTROLLERS else _run(mode, seed, wanted)


def _run(mode: str, seed: int, wanted: Mapping[str, Any]) -> RunResult:
    simulation = Simulation(seed, draw(mode, seed, wanted))
    try:
        return simulation.run()
    except BaseException as error:
        error.add_note("\n".join(list(simulation.world.trace)[-40:]))
        raise


class Simulation:
    def __init__(self, seed: int, plan: Plan) -> None:
        self.plan = plan
        self.cluster = SimCluster(seed, plan.size, plan.controllers, SETTINGS)
        self.world = self.cluster.world
        self.world.note(f"plan: {plan}")
        self.nemesis = Nemesis(
            self.world,
            self.cluster.network,
            self.cluster.machines,
            only=plan.faults,
            without=LEFT_OUT,
            pace_ms=plan.pace_ms,
            brokers=self.cluster.brokers,
            replaceable=self._is_replaceable,
            favourites=self.cluster.leaders,
        )
        self.producers: list[Producer] = []
        self.readers: list[Reader] = []
        self.admin = Admin(self.cluster, TOPIC, self.cluster.config, plan.mode)
        self.admin.on_created = self._serve_topic
        self.admin.on_deleted = self._leave_topic

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
        if self.plan.weather is not None:
            weather, wanted = self.cluster.network.weather, self.plan.weather
            weather.lost, weather.doubled = wanted.lost, wanted.doubled
            weather.late, weather.late_ms = wanted.late, wanted.late_ms
        world.run_until(world.now_ms + self.plan.faults_ms)
        self.nemesis.calm()
        self.admin.stopped = True

    def _begin(self) -> None:
        cluster = self.cluster
        cluster.start()
        replicas = min(3, len(cluster.brokers))
        wish = TopicWish(TOPIC, self.plan.partitions, replicas, {}, self.plan.topic_configs)
        cluster.create_topic(wish)
        if not self.world.run_while(lambda: TOPIC not in cluster.checker.metadata.newest.topics, WAIT_MS):
            raise Violation("a new cluster creates no topic:\n" + self._story())
        for producer in self.plan.producers:
            self._add_producer(TOPIC, producer)
        for index in range(self.plan.partitions):
            self._add_reader(TOPIC, index)
        if self.plan.administrated:
            self.admin.start()
        if self.plan.changing:
            self.admin.start_changing()

    def _add_producer(self, topic: str, plan: ProducerPlan) -> None:
        history = self.cluster.checker.history(topic, plan.partition)
        producer = Producer(
            self.cluster.client(), history, topic, plan.partition, acks=plan.acks, idempotent=plan.idempotent
        )
        self.producers.append(producer)
        producer.start()

    def _add_reader(self, topic: str, index: int) -> None:
        history = self.cluster.checker.history(topic, index)
        anywhere = self.plan.followers_read
        reader = Reader(self.cluster.client(), history, topic, index, anywhere=anywhere)
        self.readers.append(reader)
        reader.start()

    def _serve_topic(self, topic: str, wish: TopicWish) -> None:
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
        if not self.world.run_while(lambda: not self._is_whole(), WAIT_MS):
            raise Violation("a healthy cluster is not whole again:\n" + self._story())

    def _is_whole(self) -> bool:
        """Everybody lives, every partition is led, all its replicas count and nobody else has it."""
        image = self.cluster.checker.metadata.newest
        if set(self.admin.topics) | {TOPIC} != image.topics.keys() or self.cluster.leftovers():
            return False
        if any(mode_changes.under_way(topic) for topic in image.topics.values()):
            return False
        return self.cluster.checker.is_whole() and not any(broker.fenced for broker in image.brokers.values())

    def _is_replaceable(self, machine: Machine) -> bool:
        """Whether everything on its disk is elsewhere, too, and nobody waits for it to vote."""
        if machine.node_id in self.cluster.voters or not self._is_whole():
            return False
        if any(each.wiped or not each.alive for each in self.cluster.machines.values()):
            return False
        return self.cluster.checker.can_do_without(machine.node_id)

    def _take_writes(self) -> None:
        waiting = {
            producer: producer.acknowledged
            for producer in self.producers
            if producer.acks and not producer.stopped
        }

        def some_wait() -> bool:
            return any(producer.acknowledged <= count for producer, count in waiting.items())

        if not self.world.run_while(some_wait, WAIT_MS):
            raise Violation("a healthy cluster takes no writes:\n" + self._story())

    def _settle(self) -> None:
        """No more writes: readers reach the end, replicas become equal."""
        for producer in self.producers:
            producer.stopped = True
        self.world.run_until(self.world.now_ms + 500)
        if not self.world.run_while(lambda: not self._is_settled(), WAIT_MS):
            raise Violation("a healthy cluster does not settle:\n" + self._story())

    def _is_settled(self) -> bool:
        for reader in self.readers:
            if reader.stopped:
                continue
            replicas = self.cluster.hosted(reader.topic, reader.partition)
            leaders = [hosted for _, hosted in replicas if hosted.replica.role is Role.LEADER]
            ends = {hosted.log.end_offset for _, hosted in replicas}
            marks = {hosted.replica.high_watermark for _, hosted in replicas}
            if len(leaders) != 1 or len(ends) != 1 or marks != ends or {reader.position} != ends:
                return False
        return True

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
                lines += [hosted.replica.story() for hosted in machine.node.host.hosted.values()]
        return "\n".join(lines)
