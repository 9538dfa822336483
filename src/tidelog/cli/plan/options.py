"""The options of ``tidelog plan``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli.options import flag
from tidelog.config.modes import ISR, PRIMARY_BACKUP, QUORUM
from tidelog.planner.needs import ANY, STRICT


class Order(StrEnum):
    STRICT = STRICT
    ANY = ANY


class Mode(StrEnum):
    ISR = ISR
    PRIMARY_BACKUP = PRIMARY_BACKUP
    QUORUM = QUORUM


def _number(name: str, words: str, least: int = 0) -> Any:
    return typer.Option(name, metavar="N", min=least, help=words)


def _text(name: str, metavar: str, words: str) -> Any:
    return typer.Option(name, metavar=metavar, help=words)


Count = int | None

# --- needs --------------------------------------------------------------------------------------------------

Brokers = Annotated[Count, _number("--brokers", "Number of brokers; default 3.", 1)]
Writes = Annotated[Count, _number("--survive-writes", "Dead brokers during which writes must go on.")]
Reads = Annotated[Count, _number("--survive-reads", "Dead brokers during which reads must go on.")]
Data = Annotated[
    Count, _number("--survive-data", "Disks that may be lost without losing an acknowledged record.")
]
Power = Annotated[bool, flag("--power", help="A power failure of all brokers must lose nothing.")]
Racks = Annotated[Count, _number("--racks", "Racks over which the brokers are spread evenly.", 1)]
RacksLost = Annotated[
    Count,
    _number("--survive-racks", "Racks that may lose power: writes must go on, and nothing may be lost."),
]
Ordered = Annotated[
    Order,
    typer.Option("--order", help="strict: producers stay with a partition; any: they may move to others."),
]
ReplicasMax = Annotated[
    Count, _number("--replicas-max", "Disk budget: at most so many replicas of each record.", 1)
]
P99 = Annotated[
    float | None,
    typer.Option("--p99-ms", metavar="MS", min=0, help="Wish: a lone write takes no longer, in 99 of 100."),
]
Throughput = Annotated[
    float | None,
    typer.Option(
        "--mb-per-s", metavar="MB", min=0, help="Wish: throughput, with a machine for every broker."
    ),
]
OnlyMode = Annotated[Mode | None, typer.Option("--mode", help="Consider only this replication mode.")]
Separate = Annotated[bool, flag("--separate-controllers", help="The controllers have machines of their own.")]

# --- settings of another system -----------------------------------------------------------------------------

System = Annotated[
    str | None,
    _text("--from", "SYSTEM", "Translate the settings of kafka, rocketmq, dledger, nats or rabbitmq."),
]
Replicas = Annotated[Count, _number("--replicas", "With --from: replicas of each record.", 1)]
MinIsr = Annotated[Count, _number("--min-isr", "With --from kafka: min.insync.replicas.", 1)]
Acks = Annotated[str | None, _text("--acks", "ACKS", "With --from kafka: 0, 1 or all.")]
Unclean = Annotated[bool, flag("--unclean", help="With --from kafka: unclean.leader.election.enable=true.")]
Queues = Annotated[
    Count, _number("--queues", "With --from: queues of the topic. With --apply: its partitions.", 1)
]
File = Annotated[Path | None, _text("--file", "FILE", "With --from: a properties file of that system.")]
Given = Annotated[list[str], _text("--set", "KEY=VALUE", "With --from: a setting by the system's own name.")]

# --- what to do with the answer -----------------------------------------------------------------------------

RateList = Annotated[
    list[str], _text("--rate", "NAME=VALUE", "Another failure or repair rate; may be repeated.")
]
To = Annotated[Path | None, _text("--to", "FILE", "Also write the report as Markdown.")]
Prove = Annotated[
    bool,
    flag("--prove", help="Run the faults with real brokers on this machine, and compare. Takes minutes."),
]
Jars = Annotated[
    Path | None,
    _text("--jars", "DIR", "With --prove: run the isr settings on Apache Kafka from these jars as well."),
]
Apply = Annotated[str | None, _text("--apply", "TOPIC", "Create or change this topic with the settings.")]
YesToApply = Annotated[bool, flag("--yes", help="With --apply: do not ask.")]
