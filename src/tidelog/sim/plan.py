"""What one run is like: drawn from its seed, except for what somebody wants to look at."""

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

NEVER = "9223372036854775807"

ACKS = (-1, -1, -1, -1, 1, 0)


class ProducerPlan(NamedTuple):
    partition: int
    acks: int
    idempotent: bool


class Plan(NamedTuple):
    size: int = 3  # brokers
    controllers: int = 0  # nodes that are nothing else; without any, every broker is one, too
    partitions: int = 3
    synced: bool = True  # flush.messages=1
    min_in_sync: int = 2
    unclean: bool = False
    producers: tuple[ProducerPlan, ...] = ()
    followers_read: bool = False
    administrated: bool = False  # topics come and go, replicas move
    faults: tuple[str, ...] = ()  # only these kinds or families; empty: a mixture of all
    faults_ms: float = 20_000.0

    @property
    def topic_configs(self) -> dict[str, str]:
        return {
            "min.insync.replicas": str(self.min_in_sync),
            "flush.messages": "1" if self.synced else NEVER,
            "unclean.leader.election.enable": "true" if self.unclean else "false",
        }


def draw(seed: int, wanted: Mapping[str, Any]) -> Plan:
    """``wanted`` says what chance must not decide. Its source of chance is its own, so that the rest of the
    run does not change with what is asked for.
    """
    chance = random.Random(f"plan {seed}")
    plan = Plan(
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
    return plan._replace(**wanted)
