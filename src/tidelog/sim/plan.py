"""What one run is like: drawn from its seed, except for what somebody wants to look at."""

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tidelog.config.modes import ISR, MODES, PRIMARY_BACKUP, QUORUM

NEVER = "9223372036854775807"

ACKS = (-1, -1, -1, -1, 1, 0)


class ProducerPlan(NamedTuple):
    partition: int
    acks: int
    idempotent: bool


class WeatherPlan(NamedTuple):
    lost: float = 0.0  # probability for each message
    doubled: float = 0.0
    late: float = 0.0
    late_ms: float = 400.0  # at most


class Plan(NamedTuple):
    mode: str = ISR  # replication.mode of the topics
    size: int = 3  # brokers
    controllers: int = 0  # nodes that are nothing else; without any, every broker is one, too
    partitions: int = 3
    synced: bool = True  # flush.messages=1
    min_in_sync: int = 2
    unclean: bool = False
    producers: tuple[ProducerPlan, ...] = ()
    transactors: int = 0  # transactional producers
    groups: bool = False  # readers keep their places with a coordinator
    members: int = 0  # of one group that shares the main topic
    followers_read: bool = False
    administrated: bool = False  # topics come and go, replicas move
    changing: bool = False  # the main topic's replication mode changes again and again
    faults: tuple[str, ...] = ()  # only these kinds or families; empty: a mixture of all
    without: tuple[str, ...] = ()  # none of these
    only_faults: tuple[int, ...] | None = None  # numbers of the drawn faults that are done; None: all
    luck: int = 0  # Another number: another course of everything but this plan and its faults.
    weather: WeatherPlan | None = None  # None: as chance will have it
    pace_ms: tuple[float, float] = (100, 2000)  # between two faults
    faults_ms: float = 20_000.0
    rounds: int = 1  # of faults and health

    @property
    def topic_configs(self) -> dict[str, str]:
        """Settings of the main topic."""
        flush = "1" if self.synced else NEVER
        # What only one mode knows would keep the topic from going to another.
        own = {} if self.changing else BY_MODE[self.mode].configs(self)
        return {"replication.mode": self.mode, "flush.messages": flush, **own}


class ModePlan(NamedTuple):
    """What the seeds of one replication mode are like."""

    # Settings of the main topic that only this mode knows.
    configs: Callable[[Plan], dict[str, str]]
    # The same for a topic that an administrator creates meanwhile, with so many replicas.
    other_configs: Callable[[random.Random, int], dict[str, str]]
    # What is drawn for this mode only, or otherwise than for all.
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
    """Followers serve readers only while nobody leads; nobody is elected."""
    return plan._replace(min_in_sync=chance.choice([1, 2, 2, 3]), followers_read=False, unclean=False)


def _draw_quorum(chance: random.Random, plan: Plan) -> Plan:
    """Nobody is elected who may lack anything, whatever the topic says. Where voters do not sync, a disk that
    fails one after the other would make a majority forget.
    """
    without = () if plan.synced else ("failing writes", "failing syncs", "full disk")
    return plan._replace(unclean=False, without=without)


def _draw_changes(chance: random.Random, plan: Plan) -> Plan:
    """Every ok is to mean the same in all modes, so that it does not matter under which one it was given: on
    disk, and never from the leader alone.
    """
    mode = chance.choice(sorted(MODES))
    producers = tuple(producer._replace(acks=min(producer.acks, -1)) for producer in plan.producers)
    return plan._replace(
        mode=mode, changing=True, synced=True, min_in_sync=2, unclean=False, followers_read=False,
        administrated=False, producers=producers,
    )  # fmt: skip


def _draw_transactions(chance: random.Random, plan: Plan) -> Plan:
    return plan._replace(
        mode=ISR, transactors=chance.choice([2, 3]), groups=True, members=chance.choice([0, 2, 3, 4]),
        followers_read=False, unclean=False,
        producers=plan.producers[:2],
    )  # fmt: skip


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
    """``wanted`` says what chance must not decide. Its source of chance is its own, so that the rest of the
    run does not change with what is asked for.
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
    return BY_MODE[mode].draw(chance, plan)._replace(**wanted)
