"""What a check of the access rules costs a produce, with 10,000 rules."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from bench.lineup import Options
from bench.report import Check, Column, Report
from tidelog.broker.handlers.produce import ProduceHandler
from tidelog.broker.requests.request import RequestContext
from tidelog.security.access import AccessTable
from tidelog.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from tidelog.security.principal import Principal

RULES, USERS = 10_000, 100
ROUNDS, QUICK_ROUNDS = 200_000, 20_000
REPEATS = 5
CHECK_MAX_US = 2.0

COLUMNS = (Column("us", "µs", ".2f"),)


def table() -> AccessTable:
    made = AccessTable(["User:admin"])
    made.follow(
        frozenset(
            Acl(
                ResourceType.TOPIC,
                f"topic-{number}",
                PatternType.LITERAL,
                f"User:user-{number % USERS}",
                "*",
                Operation.WRITE,
                Permission.ALLOW,
            )
            for number in range(RULES)
        )
    )
    return made


def best_us(work: Callable[[], object], rounds: int) -> float:
    """Of several repeats, the one that was disturbed least."""
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(rounds):
            work()
        times.append(time.perf_counter() - began)
    return min(times) / rounds * 1e6


def run(options: Options) -> list[Report]:
    access = table()
    context = RequestContext(0, 12, 1, None, "10.0.0.1:50000", principal=Principal("User", "user-7"))
    partition: Any = SimpleNamespace(name=SimpleNamespace(topic="topic-7"))
    on = cast(ProduceHandler, SimpleNamespace(_access=access))
    off = cast(ProduceHandler, SimpleNamespace(_access=None))
    assert not ProduceHandler.forbids(on, "topic-7", partition, context)
    rounds = QUICK_ROUNDS if options.quick else ROUNDS

    def check() -> None:
        if on._access is not None:
            ProduceHandler.forbids(on, "topic-7", partition, context)

    def no_check() -> None:
        if off._access is not None:
            ProduceHandler.forbids(off, "topic-7", partition, context)

    def first_check() -> None:
        access._verdicts.clear()
        ProduceHandler.forbids(on, "topic-7", partition, context)

    report = Report("Access rules: one check of a produce", COLUMNS, ["check"], decides=True)
    idle = best_us(no_check, rounds)
    kept = best_us(check, rounds) - idle
    report.rows.append({"check": "without an authorizer", "us": idle})
    report.rows.append({"check": "the verdict is kept", "us": kept})
    report.rows.append({"check": "the first one after a change", "us": best_us(first_check, rounds) - idle})
    report.checks = [Check("a check with a kept verdict", kept, CHECK_MAX_US, at_least=False, unit="µs")]
    return [report]
