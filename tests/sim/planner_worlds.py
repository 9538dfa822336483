"""Small directed worlds that compare the planner's model with what the simulator does.

One world has a cluster, one set of faults and several topics with settings and replicas of their own: each
topic is a case. Faults come in two phases. Those of the first phase come before a write, so that replicas are
left out of it; those of the second phase hit all others in one moment, right after the write was
acknowledged. While all faults last, writes and reads are tried. Then everything returns in the order that the
seed says, an operator does what the documentation leaves to one, and the logs are read.

Checked for every case: writes, reads and records that the model promises are there. The other direction, that
what it does not promise fails, is checked where this order of events must bring it about.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any, NamedTuple

import pytest

from tidelog.config.modes import ISR, PRIMARY_BACKUP, QUORUM
from tidelog.controller.topics import NewTopic
from tidelog.errors import ErrorCode
from tidelog.planner.faults import CUT_OFF, DEAD, EVENTS, POWER_LOST, SLOW, Faults, Placement
from tidelog.planner.model import Outcome, moment, outcome
from tidelog.planner.outages import reads_go_on
from tidelog.planner.promises import Terms
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.replica import Role
from tidelog.sim.checkers.batches import entries
from tidelog.sim.clients.client import LookupCall, ProduceCall, ReadCall, Reply
from tidelog.sim.cluster import SimCluster
from tidelog.sim.disk import nothing
from tidelog.sim.operator import Operator
from tidelog.types import majority

TOPICS = 20
SETTINGS = {"broker.session.timeout.ms": 1500, "replica.lag.time.max.ms": 1000}
WRITES = 3  # The first writes to a log, and to one with a new leader, are synced with its file names.
LAST = f"r1-{WRITES - 1}"  # the newest record when the second phase comes
NEVER = "9223372036854775807"


class Case(NamedTuple):
    name: str
    terms: Terms
    where: Placement

    def configs(self) -> dict[str, str]:
        found = {"replication.mode": self.terms.mode, "flush.messages": "1" if self.terms.synced else NEVER}
        if self.terms.mode != QUORUM:
            found["min.insync.replicas"] = str(self.terms.min_in_sync)
        if self.terms.mode == ISR:
            found["unclean.leader.election.enable"] = str(self.terms.unclean).lower()
        if self.terms.mode == PRIMARY_BACKUP and self.terms.degrades:
            found["replication.degrade.after.ms"] = "300"
        return found


class WorldPlan(NamedTuple):
    seed: int
    brokers: int
    separate: bool  # whether controllers have machines of their own
    faults: Faults
    first: frozenset[int]  # brokers whose faults come before the write
    cases: tuple[Case, ...]


class Found(NamedTuple):
    case: Case
    said: Outcome
    must_lose: bool
    writes: bool
    reads: bool
    lost: frozenset[str]

    def wrong(self, plan: WorldPlan) -> list[str]:
        """What the model says and the simulator does not show. Reads are promised for every order of the
        faults: the other direction is asked of this order.
        """
        at_once = reads_go_on(self.case.terms, moment(self.case.where, plan.faults))
        rows = (
            (self.said.writes and not self.writes, "writes do not go on"),
            (not self.said.writes and self.writes and not plan.first, "writes go on"),
            (self.said.reads and not self.reads, "reads do not go on"),
            (self.reads and not (plan.first or at_once or _may_be_lucky(self.case, plan)), "reads go on"),
            (not self.said.loss and bool(self.lost), f"{sorted(self.lost)} lost"),
            (self.must_lose and not self.lost, "nothing lost"),
        )
        return [
            f"seed {plan.seed}: {words}: {self.case}, {plan.faults}, first {sorted(plan.first)}: {self.said}"
            for holds, words in rows
            if holds
        ]


def _may_be_lucky(case: Case, plan: WorldPlan) -> bool:
    """Clients still reach a replica that is cut off. A broker that knows that the controllers have ended may
    send readers there, and a follower serves them what it knows to be committed. That is not promised.
    """
    faults, voters = plan.faults, case.where.controllers
    left = [voter for voter in voters if voter not in faults.dead]
    ended = faults.controllers_lost or len(left) < majority(len(voters))
    return ended and not faults.cut_off.isdisjoint(case.where.replicas)


# --- drawing ------------------------------------------------------------------------------------------------


def draw(seed: int) -> WorldPlan:
    chance = Random(f"planner {seed}")
    brokers = chance.choice((3, 3, 4, 5))
    separate = chance.random() < 0.6
    controllers = tuple(range(brokers + 1, brokers + 4)) if separate else tuple(range(1, brokers + 1))
    cases = tuple(_case(chance, f"t{number}", brokers, controllers) for number in range(TOPICS))
    faults = _faults(chance, brokers, separate)
    # So that all replicas of some topic have a fault now and then.
    first = frozenset(each for each in faults.affected if chance.random() < 0.5) | faults.slow
    if not separate and len(first & faults.away) >= majority(brokers):
        first = faults.slow
    return WorldPlan(seed, brokers, separate, faults, first, cases)


def draw_others(seed: int) -> WorldPlan:
    """Clusters that ``draw`` does not have: of one and two brokers, with one controller, or with controllers
    on some of the brokers, as ``tidelog up`` has them from four brokers on; quorums of four; five replicas.
    """
    chance = Random(f"planner, others {seed}")
    brokers = chance.choice((1, 2, 2, 3, 4, 4, 5))
    voters = chance.choice([each for each in (1, 2, 3) if each <= brokers])
    first = chance.randint(1, brokers - voters + 1)
    separate = chance.random() < 0.3
    if separate:
        voters, first = chance.choice((1, 3)), brokers + 1
    controllers = tuple(range(first, first + voters))
    cases = tuple(_other_case(chance, f"t{number}", brokers, controllers) for number in range(TOPICS))
    faults = _faults(chance, brokers, separate)
    early = frozenset(each for each in faults.affected if chance.random() < 0.5) | faults.slow
    if len(early & faults.away & {*controllers}) >= majority(voters):
        early = faults.slow
    return WorldPlan(seed, brokers, separate, faults, early, cases)


def _other_case(chance: Random, name: str, brokers: int, controllers: tuple[int, ...]) -> Case:
    mode = chance.choice((ISR, ISR, PRIMARY_BACKUP, QUORUM if brokers >= 3 else ISR))
    count = chance.randint(3 if mode == QUORUM else 1, brokers)
    return _with_settings(chance, name, mode, count, brokers, controllers)


def _case(chance: Random, name: str, brokers: int, controllers: tuple[int, ...]) -> Case:
    mode = chance.choice((ISR, ISR, PRIMARY_BACKUP, QUORUM))
    count = (
        chance.choice([each for each in (3, 5) if each <= brokers])
        if mode == QUORUM
        else chance.randint(1, min(4, brokers))
    )
    return _with_settings(chance, name, mode, count, brokers, controllers)


def _with_settings(
    chance: Random, name: str, mode: str, count: int, brokers: int, controllers: tuple[int, ...]
) -> Case:
    terms = Terms(
        mode,
        count,
        min_in_sync=chance.randint(1, count),
        synced=chance.random() < 0.4,
        unclean=mode == ISR and chance.random() < 0.3,
        degrades=mode == PRIMARY_BACKUP and chance.random() < 0.2,
        acks="1" if mode == ISR and chance.random() < 0.2 else "all",
    )
    return Case(name, terms, Placement(tuple(chance.sample(range(1, brokers + 1), count)), controllers))


def _faults(chance: Random, brokers: int, separate: bool) -> Faults:
    share = chance.choice((0.3, 0.6, 0.9, 1.0))
    hit = [each for each in range(1, brokers + 1) if chance.random() < share]
    # A majority of controllers that lost their disks is no cluster any more.
    kinds = EVENTS if separate else (SLOW, DEAD, CUT_OFF, POWER_LOST)
    allowed = chance.sample(kinds, chance.randint(1, len(kinds)))
    events = {each: chance.choice(allowed) for each in hit}
    return Faults.of(events, controllers_lost=separate and chance.random() < 0.2)


# --- holders of the write -----------------------------------------------------------------------------------


def gone_at_once(case: Case, plan: WorldPlan) -> frozenset[int]:
    """Brokers whose data of this topic is gone in the second phase."""
    faults = plan.faults
    gone = faults.disk_lost if case.terms.synced else faults.disk_lost | faults.power_lost
    return gone - plan.first


def holders(case: Case, plan: WorldPlan, leader: int) -> frozenset[int]:
    """The replicas that are to get the write: a whole in-sync set; in other modes as many as have to, first
    those that will lose it.
    """
    there = [each for each in case.where.replicas if each not in plan.first]
    if leader not in there:
        return frozenset()
    if case.terms.mode == ISR:
        return frozenset({leader} if case.terms.acks == "1" else there)
    order = sorted(there, key=lambda each: (each != leader, each not in gone_at_once(case, plan)))
    return frozenset(order[: case.terms.copies])


# --- running ------------------------------------------------------------------------------------------------


def _is_empty(heard: list[Reply]) -> bool:
    return not heard


class PlannerWorld:
    def __init__(self, plan: WorldPlan) -> None:
        self.plan = plan
        controllers = plan.cases[0].where.controllers
        self.cluster = SimCluster(plan.seed, plan.brokers, len(controllers) if plan.separate else 0, SETTINGS)
        # Of a cluster without machines for controllers, all brokers are.
        self.cluster.voters = range(controllers[0], controllers[-1] + 1)
        self.world = self.cluster.world
        self.client = self.cluster.client()
        self.acked: dict[str, set[str]] = {case.name: set() for case in plan.cases}
        self.names: dict[object, str] = {}  # topic id → its name
        self.doomed: set[str] = set()  # topics whose second write is lost for certain, if it is acknowledged

    def run(self) -> list[Found]:
        self._begin()
        self._write_some("r0", 4000)
        with self._holding() as held:
            self._first_phase(held)
            self._hold_back(held)
            self._write_some("r1", 200)
            self._second_phase()
            held.difference_update({(each, name) for each, name in held if each not in self.plan.faults.slow})
            self._resume()
            self.world.run_until(self.world.now_ms + 5000)
            writes = self._write("r2", 4000, all_copies=True)
            reads = self._reads()
            held.clear()
        self._return()
        kept = {case.name: self._read_all(case) for case in self.plan.cases}
        return [
            Found(
                case,
                outcome(case.terms, case.where, self.plan.faults),
                case.name in self.doomed and LAST in self.acked[case.name],
                case.name in writes,
                case.name in reads,
                frozenset(self.acked[case.name] - kept[case.name]),
            )
            for case in self.plan.cases
        ]

    def _name_of(self, driver: ReplicaDriver) -> str:
        key: Any = driver.key
        return self.names.get(key[0], "")

    @contextmanager
    def _holding(self) -> Iterator[set[tuple[int, str]]]:
        """Brokers and topics in this set are not fetched: a follower that is slow, for that topic."""
        held: set[tuple[int, str]] = set()
        usual, usual_take = ReplicaDriver.__dict__["may_fetch"], ReplicaDriver.take

        def is_held(driver: ReplicaDriver) -> bool:
            return bool(held) and (driver.replica.me, self._name_of(driver)) in held

        def may_fetch(driver: ReplicaDriver) -> bool:
            return not is_held(driver) and bool(usual.fget(driver))

        def take(driver: ReplicaDriver, *arguments: Any, **named: Any) -> Any:
            """What a fetch brings that was pending when the replica became slow is dropped."""
            if is_held(driver):
                return None
            return usual_take(driver, *arguments, **named)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ReplicaDriver, "may_fetch", property(may_fetch))
            patch.setattr(ReplicaDriver, "take", take)
            yield held

    def _begin(self) -> None:
        cluster = self.cluster
        cluster.start()
        cluster.confirm_deaths()
        for case in self.plan.cases:
            replicas = list(case.where.replicas)
            cluster.create_topic(NewTopic(case.name, -1, -1, {0: replicas}, case.configs()))
        if not self.world.run_while(lambda: not self._whole(), 20_000):
            raise AssertionError(f"seed {self.plan.seed}: the cluster does not begin")
        self.world.run_until(self.world.now_ms + 1000)
        topics = cluster.checker.metadata.newest.topics
        self.names.update({topics[case.name].topic_id: case.name for case in self.plan.cases})

    def _whole(self) -> bool:
        topics = self.cluster.checker.metadata.newest.topics
        return all(
            case.name in topics
            and topics[case.name].partitions[0].leader >= 0
            and len(topics[case.name].partitions[0].in_sync) == case.terms.replicas
            for case in self.plan.cases
        )

    # --- faults ---------------------------------------------------------------------------------------------

    def _first_phase(self, held: set[tuple[int, str]]) -> None:
        faults = self.plan.faults
        held.update((each, case.name) for each in faults.slow for case in self.plan.cases)
        if faults.slow:
            self.world.run_until(self.world.now_ms + 2500)
        for broker in sorted(self.plan.first & faults.away):
            self._strike(broker)
            self.world.run_until(self.world.now_ms + 300)
        if self.plan.first & faults.away:
            self.world.run_until(self.world.now_ms + 3500)

    def _hold_back(self, held: set[tuple[int, str]]) -> None:
        """Others than the holders get the write later: no fault, only the time that copying takes."""
        for case in self.plan.cases:
            leader = next(iter(self._leaders(case)), -1)
            chosen = holders(case, self.plan, leader)
            if chosen and chosen <= gone_at_once(case, self.plan):
                self.doomed.add(case.name)
            if chosen and (case.terms.mode != ISR or case.terms.acks == "1"):
                held.update((each, case.name) for each in case.where.replicas if each not in chosen)

    def _second_phase(self) -> None:
        faults = self.plan.faults
        for broker in sorted(faults.away - self.plan.first):
            self._strike(broker)
        if faults.controllers_lost:
            for voter in self.cluster.voters[: majority(len(self.cluster.voters))]:
                self.cluster.machines[voter].kill()

    def _strike(self, broker: int) -> None:
        faults, machine = self.plan.faults, self.cluster.machines[broker]
        if broker in faults.dead:
            machine.kill()
        elif broker in faults.power_lost:
            machine.lose_power(nothing)
        elif broker in faults.disk_lost:
            machine.lose_power(nothing)  # Otherwise it may be killed, and others know that it has ended.
            machine.lose_disk()
        else:
            self.cluster.network.part([broker], [each for each in self.cluster.machines if each != broker])

    def _return(self) -> None:
        chance = Random(f"return {self.plan.seed}")
        self.cluster.network.heal()
        for voter in self.cluster.voters:
            if voter not in self.cluster.brokers:
                self.cluster.machines[voter].start()
        self._resume()
        for broker in chance.sample(list(self.cluster.brokers), self.plan.brokers):
            self.cluster.machines[broker].start()
            self.world.run_until(self.world.now_ms + chance.choice((0, 500, 3000)))
        Operator(self.cluster).start()
        self.world.run_while(lambda: not self._whole(), 60_000)

    def _resume(self) -> None:
        for case in self.plan.cases:
            for _, driver in self.cluster.drivers(case.name, 0):
                driver.resume_fetching()

    # --- clients --------------------------------------------------------------------------------------------

    def _leaders(self, case: Case) -> list[int]:
        """Brokers that consider themselves the leader, by their own word."""
        return [
            machine.node_id
            for machine, driver in self.cluster.drivers(case.name, 0)
            if driver.replica.role is Role.LEADER
        ]

    def _write(self, value: str, patience_ms: float, *, all_copies: bool = False) -> set[str]:
        """One record to each topic; the topics where it was acknowledged."""
        done: set[str] = set()
        sent: set[tuple[str, int]] = set()
        batch = bytes(encode_batch([Record(0, int(self.world.now_ms), None, value.encode(), ())]))

        def try_all() -> None:
            for case in self.plan.cases:
                for leader in self._leaders(case):
                    if (case.name, leader) not in sent and case.name not in done:
                        sent.add((case.name, leader))
                        acks = -1 if all_copies or case.terms.acks == "all" else int(case.terms.acks)
                        self._produce(case, leader, batch, acks, done, sent)

        end_ms = self.world.now_ms + patience_ms
        while self.world.now_ms < end_ms and len(done) < len(self.plan.cases):
            try_all()
            self.world.run_until(min(end_ms, self.world.now_ms + 50))
        for name in done:
            self.acked[name].add(value)
        return done

    def _write_some(self, name: str, patience_ms: float) -> None:
        for number in range(WRITES):
            self._write(f"{name}-{number}", patience_ms)

    def _produce(
        self, case: Case, leader: int, batch: bytes, acks: int, done: set[str], sent: set[tuple[str, int]]
    ) -> None:
        call = ProduceCall(self.client.client_id, self.client.next_number(), case.name, 0, batch, acks, 1000)

        def answered(reply: Reply) -> None:
            if reply.error is ErrorCode.NONE:
                done.add(case.name)
            else:
                sent.discard((case.name, leader))

        self.client.ask(leader, call, answered, patience_ms=1500)

    def _reads(self) -> set[str]:
        """Topics whose first record some broker serves to which another one sends readers."""
        found: set[str] = set()
        asked: set[tuple[str, int]] = set()

        def read(case: Case, reply: Reply) -> None:
            if reply.records:
                found.add(case.name)

        def looked_up(case: Case, told: Reply) -> None:
            leader = told.leaders[0][0] if told.leaders else -1
            if leader >= 0 and (case.name, leader) not in asked:
                asked.add((case.name, leader))
                self._read(case, leader, 0, partial(read, case))

        for case in self.plan.cases:
            for broker in self.cluster.brokers:
                call = LookupCall(self.client.client_id, self.client.next_number(), case.name, reads=True)
                self.client.ask(broker, call, partial(looked_up, case))
        self.world.run_until(self.world.now_ms + 4500)
        return found

    def _read(self, case: Case, broker: int, offset: int, then: Callable[[Reply], None]) -> None:
        number = self.client.next_number()
        call = ReadCall(self.client.client_id, number, case.name, 0, offset, -1, -1, 1 << 20)
        self.client.ask(broker, call, then)

    def _read_all(self, case: Case) -> set[str]:
        """What consumers get when everything is back."""
        got: set[str] = set()
        position, turns = 0, 0
        while turns < 20:
            turns += 1
            heard: list[Reply] = []
            for leader in self._leaders(case)[:1]:
                self._read(case, leader, position, heard.append)
            self.world.run_while(partial(_is_empty, heard), 2500, 10)
            if not heard or heard[0].error is not ErrorCode.NONE:
                # A leader that was cut off serves nobody until it is confirmed.
                self.world.run_until(self.world.now_ms + 500)
                continue
            records = list(entries(heard[0].records))
            if not records:
                return got
            got |= {each.value.decode() for each in records if each.value}
            position = records[-1].offset + 1
        return got
