"""The plan of one run: drawn from its seed, except for fixed parts."""

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tidelog.config.modes import ISR, MODES, PRIMARY_BACKUP, QUORUM
from tidelog.sim.perturbations import POINTS

NEVER = "9223372036854775807"

ACKS = (-1, -1, -1, -1, 1, 0)

OPERATIONS = (
    "flush", "copies", "unclean", "layout", "retain", "delete records", "stop", "drain", "unregister",
    "force", "force blindly", "promote", "voters",
)  # fmt: skip
"""What an operator may do at any time."""

# Settings of all nodes that differ from run to run. Settings that exceed the time limits of a run, or make
# brokers forget idempotent producers, are not here.
SWARM: dict[str, tuple[Any, ...]] = {
    "replica.lag.time.max.ms": (500, 1000, 2000, 5000),
    "broker.session.timeout.ms": (1000, 1500, 3000, 5000),
    "broker.heartbeat.interval.ms": (50, 300, 600),
    "controller.quorum.fetch.timeout.ms": (400, 1000, 2000),
    "metadata.log.max.record.bytes.between.snapshots": (400, 2000, 20 << 20),
    "log.segment.bytes": (1024, 8192, 1 << 20),
    "log.index.interval.bytes": (0, 64, 512, 4096),
    "log.index.size.max.bytes": (128, 2048, 1 << 16),
    "log.flush.offset.checkpoint.interval.ms": (100, 3000, 30_000),
    "log.retention.check.interval.ms": (200, 2000),
    "log.segment.delete.delay.ms": (0, 1000),
    "log.open.files.max": (64, 10_000),
    "fetch.max.bytes": (8192, 55 << 20),
    "leader.imbalance.check.interval.seconds": (1, 30),
    "group.initial.rebalance.delay.ms": (0, 100, 1000),
}


PACES_MS: tuple[tuple[float, float], ...] = ((100, 2000), (50, 500), (20, 250))
"""Between two faults. A run takes as long with many as with few. Where they are rare, there is time for what
follows from one; where they are frequent, several come together, and fewer writes get through.
"""


class ProducerPlan(NamedTuple):
    partition: int
    acks: int
    idempotent: bool


class LoadPlan(NamedTuple):
    """How clients behave."""

    produce_pause_ms: float = 60.0  # on average
    batch_sizes: tuple[int, ...] = (1, 1, 1, 4)  # records
    value_bytes: int = 0  # by which values are longer than their names
    poll_pause_ms: float = 60.0
    read_bytes: int = 4096  # at most in one response
    mixed_acks: bool = False  # A producer with acknowledgements alternates between acks=1 and acks=all.


class WeatherPlan(NamedTuple):
    lost: float = 0.0  # probability for each message
    doubled: float = 0.0
    late: float = 0.0
    late_ms: float = 400.0  # at most


class Plan(NamedTuple):
    mode: str = ISR  # replication.mode of the topics
    size: int = 3  # brokers
    controllers: int = 0  # dedicated controllers; without any, every broker is one, too
    partitions: int = 3
    synced: bool = True  # flush.messages=1
    min_in_sync: int = 2
    unclean: bool = False
    producers: tuple[ProducerPlan, ...] = ()
    transactors: int = 0  # transactional producers
    old_transactors: bool = False  # they do not know transaction version 2
    groups: bool = False  # readers commit their offsets
    members: int = 0  # of one group that shares the main topic
    consumers: bool = False  # they speak the consumer protocol, not the classic one
    followers_read: bool = False
    administrated: bool = False  # topics are created and deleted, replicas move
    changing: bool = False  # the main topic's replication mode changes repeatedly
    operations: tuple[str, ...] = ()  # what an operator does meanwhile
    settings: tuple[tuple[str, Any], ...] = ()  # of all nodes, where they differ from the defaults
    perturbed: tuple[str, ...] = ()  # active perturbation points
    deaths_confirmed: bool = False  # connections to ended processes are refused
    load: LoadPlan = LoadPlan()
    faults: tuple[str, ...] = ()  # only these kinds or families; empty: a mixture of all
    without: tuple[str, ...] = ()  # none of these
    only_faults: tuple[int, ...] | None = None  # numbers of the drawn faults that are done; None: all
    luck: int = 0  # Another number changes all random choices but this plan and its faults.
    weather: WeatherPlan | None = None  # None: random
    pace_ms: tuple[float, float] = (100, 2000)  # between two faults
    faults_ms: float = 20_000.0
    rounds: int = 1  # of faults and health

    @property
    def topic_configs(self) -> dict[str, str]:
        """Settings of the main topic."""
        flush = "1" if self.synced else NEVER
        # Settings that only one mode knows would prevent a change to another.
        own = {} if self.changing else BY_MODE[self.mode].configs(self)
        return {"replication.mode": self.mode, "flush.messages": flush, **own}


PLAIN: dict[str, Any] = {"operations": (), "settings": (), "perturbed": (), "load": LoadPlan()}
"""For ``wanted``: nothing but the faults is unusual."""


class ModePlan(NamedTuple):
    """The seeds of one replication mode."""

    # Settings of the main topic that only this mode knows.
    configs: Callable[[Plan], dict[str, str]]
    # The same for a topic that an administrator creates meanwhile, with that many replicas.
    other_configs: Callable[[random.Random, int], dict[str, str]]
    # What is drawn only for this mode, or differently.
    draw: Callable[[random.Random, Plan], Plan] = lambda chance, plan: plan


def _isr_configs(plan: Plan) -> dict[str, str]:
    return {
        "min.insync.replicas": str(plan.min_in_sync),
        "unclean.leader.election.enable": "true" if plan.unclean else "false",
    }


def _other_isr_configs(chance: random.Random, replicas: int) -> dict[str, str]:
    return {"min.insync.replicas": str(chance.randint(1, replicas))} if chance.random() < 0.5 else {}


def _primary_backup_configs(plan: Plan) -> dict[str, str]:
    return {"min.insync.replicas": str(plan.min_in_sync)}


def _other_primary_backup_configs(chance: random.Random, replicas: int) -> dict[str, str]:
    settings = {"min.insync.replicas": str(chance.randint(1, replicas))}
    if chance.random() < 0.3:
        settings["replication.degrade.after.ms"] = str(chance.choice([300, 3000]))
    return settings


def _draw_primary_backup(chance: random.Random, plan: Plan) -> Plan:
    """Followers serve readers only while there is no leader; there are no elections."""
    return plan._replace(min_in_sync=chance.choice([1, 2, 2, 3]), followers_read=False, unclean=False)


def _draw_quorum(chance: random.Random, plan: Plan) -> Plan:
    """No replica is elected that may lack anything, whatever the topic's settings. If voters do not sync, one
    failing disk after another would make a majority lose data.
    """
    without = () if plan.synced else ("failing writes", "failing syncs", "full disk")
    return plan._replace(unclean=False, without=without)


def _draw_changes(chance: random.Random, plan: Plan) -> Plan:
    """Every acknowledgement means the same in all modes, so that it does not matter under which it was given:
    on disk, and never from the leader alone. Everything else is active as well: transactions, groups, readers
    of any replica, an administrator.
    """
    mode = chance.choice(sorted(MODES))
    producers = tuple(producer._replace(acks=min(producer.acks, -1)) for producer in plan.producers)
    transactors = chance.choice([0, 0, 2])
    return plan._replace(
        mode=mode, changing=True, synced=True, min_in_sync=2, unclean=False, producers=producers,
        transactors=transactors, groups=transactors > 0, members=chance.choice([0, 0, 2]),
        load=plan.load._replace(mixed_acks=False),
    )  # fmt: skip


def _draw_transactions(chance: random.Random, plan: Plan) -> Plan:
    """Internal topics have mode isr; the main one may have any."""
    drawn = plan._replace(
        transactors=chance.choice([2, 3]), groups=True, members=chance.choice([0, 2, 3, 4]), unclean=False,
        # At least one uses acknowledgements.
        producers=(plan.producers[0]._replace(acks=-1), plan.producers[1]),
    )  # fmt: skip
    mode = chance.choice([ISR, ISR, PRIMARY_BACKUP, QUORUM])
    return BY_MODE[mode].draw(chance, drawn._replace(mode=mode))


TRANSACTIONS = "transactions"  # and groups, on topics of mode isr
CHANGES = "changes"  # from mode to mode

BY_MODE: dict[str, ModePlan] = {
    ISR: ModePlan(_isr_configs, _other_isr_configs),
    PRIMARY_BACKUP: ModePlan(_primary_backup_configs, _other_primary_backup_configs, _draw_primary_backup),
    QUORUM: ModePlan(lambda plan: {}, lambda chance, replicas: {}, _draw_quorum),
    TRANSACTIONS: ModePlan(_isr_configs, _other_isr_configs, _draw_transactions),
    CHANGES: ModePlan(lambda plan: {}, lambda chance, replicas: {}, _draw_changes),
}


def draw(mode: str, seed: int, wanted: Mapping[str, Any]) -> Plan:
    """``wanted`` fixes parts of the plan. Its random source is its own, so that the rest of the run does not
    change with it.
    """
    chance = random.Random(f"plan {seed}")
    plan = Plan(
        mode=mode,
        size=5 if seed % 3 == 0 else 3,
        controllers=chance.choice([0, 0, 3]),
        synced=chance.random() < 0.5,
        min_in_sync=chance.choice([2, 2, 2, 1]),
        unclean=chance.random() < 0.1,
        producers=tuple(
            ProducerPlan(number % 3, chance.choice(ACKS), chance.random() < 0.5) for number in range(6)
        ),
        followers_read=chance.random() < 0.3,
        administrated=chance.random() < 0.5,
    )
    plan = plan._replace(
        operations=_draw_operations(seed),
        settings=_draw_settings(seed),
        perturbed=_draw_perturbed(seed),
        load=_draw_load(seed),
        consumers=random.Random(f"consumers {seed}").random() < 0.5,
        old_transactors=random.Random(f"old transactors {seed}").random() < 0.5,
        pace_ms=random.Random(f"pace {seed}").choice(PACES_MS),
        deaths_confirmed=random.Random(f"deaths confirmed {seed}").random() < 0.5,
    )
    return BY_MODE[mode].draw(chance, plan)._replace(**wanted)


# Each of these has its own random source: with one more of them the others stay the same.


def _draw_settings(seed: int) -> tuple[tuple[str, Any], ...]:
    """Defaults in a third of the runs; otherwise some of them differ."""
    chance = random.Random(f"settings {seed}")
    share = chance.choice([0.0, 0.3, 0.7])
    return tuple((name, chance.choice(values)) for name, values in SWARM.items() if chance.random() < share)


def _draw_perturbed(seed: int) -> tuple[str, ...]:
    chance = random.Random(f"perturbed {seed}")
    share = chance.choice([0.0, 0.2, 0.6])
    return tuple(name for name in POINTS if chance.random() < share)


def _draw_load(seed: int) -> LoadPlan:
    chance = random.Random(f"load {seed}")
    if chance.random() < 0.5:
        return LoadPlan()
    return LoadPlan(
        produce_pause_ms=chance.choice([40.0, 60.0, 200.0]),
        batch_sizes=chance.choice([(1,), (1, 1, 1, 4), (1, 10)]),
        value_bytes=chance.choice([0, 0, 50, 500]),
        poll_pause_ms=chance.choice([20.0, 60.0, 500.0]),
        read_bytes=chance.choice([1, 500, 4096, 1 << 20]),
        mixed_acks=chance.random() < 0.3,
    )


def _draw_operations(seed: int) -> tuple[str, ...]:
    """None in half of the runs; otherwise about half of them."""
    chance = random.Random(f"operations {seed}")
    if chance.random() < 0.5:
        return ()
    return tuple(name for name in OPERATIONS if chance.random() < 0.5)
