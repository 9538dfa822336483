"""What ``tidelog topic`` does about replication modes: options, following a change, showing what waits."""

import sys
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.failure import CommandFailed, complain
from tidelog.cli.tables import count, print_table
from tidelog.cli.topic import admin as topic_admin
from tidelog.cli.units import Duration
from tidelog.config.modes import MODES, WITHOUT_MEANING
from tidelog.config.topic import REPLICATION_MODE

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

MODE_TIMEOUT_S = 60.0
RECHECK_S = 0.1

Mode = Annotated[
    str | None,
    typer.Option(
        "--mode",
        metavar="MODE",
        help=f"Replication mode: one of {', '.join(MODES)} (sets replication.mode). "
        "`tidelog modes` compares them.",
    ),
]
Copies = Annotated[
    int | None,
    typer.Option(
        "--copies",
        metavar="N",
        min=1,
        help="How many replicas must hold a write before it is acknowledged (sets min.insync.replicas).",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="TIME",
        parser=Duration(),
        help="With --mode: how long to wait for all partitions to change, such as 90s.",
    ),
]


def with_mode(settings: Mapping[str, str], mode: str | None, copies: int | None) -> dict[str, str]:
    """The settings of a command, including those that its options set."""
    wanted = dict(settings)
    if mode is not None:
        wanted[REPLICATION_MODE] = mode
    if copies is not None:
        wanted[topic_admin.COPIES] = str(copies)
    return wanted


def without_meaning(
    own: Mapping[str, str], mode: str, settings: Mapping[str, str], unset: Iterable[str]
) -> dict[str, str]:
    """Which of a topic's own settings have no meaning in a mode, with the reason. Settings of the command
    itself are left to the cluster, which refuses the contradiction.
    """
    mentioned = {*settings, *unset}
    reasons = WITHOUT_MEANING.get(mode, {})
    return {name: reason for name, reason in reasons.items() if name in own and name not in mentioned}


def unset_for(
    admin: "AdminClient",
    topic: str,
    mode: str,
    settings: Mapping[str, str],
    unset: Iterable[str],
    *,
    yes: bool,
) -> list[str]:
    """Settings that must be removed with the change of mode. The user set them, so the user agrees first."""
    own = topic_admin.own_settings(admin, topic)
    found = without_meaning(own, mode, settings, unset)
    if not found or yes:
        return list(found)
    said = " ".join(
        f"{name} has no meaning in mode {mode}: {reason}. {topic} has {name}={own[name]}."
        for name, reason in found.items()
    )
    if not sys.stdin.isatty():
        words = " ".join(f"--unset {name}" for name in found)
        raise CommandFailed(f"{said} Nothing was changed; add {words}, or --yes for all of it.")
    print(said)
    if not typer.confirm(f"Unset {' and '.join(found)}?"):
        raise CommandFailed("Nothing was changed.")
    return list(found)


def tell_warnings(admin: "AdminClient", topic: str) -> None:
    """Warnings about the settings go to stderr: the command itself has succeeded."""
    try:
        warnings = topic_admin.warnings(admin, topic)
    except CommandFailed:
        return  # The broker does not know the topic yet.
    for warning in warnings:
        print(f"Note: {warning}", file=sys.stderr)


def follow_change(admin: "AdminClient", topic: str, mode: str, timeout_s: float) -> None:
    """Wait until every partition has changed its mode, and print how many are left."""
    try:
        _follow(admin, topic, mode, timeout_s)
    except KeyboardInterrupt:
        complain(f"The change to mode {mode} goes on; `tidelog topic describe {topic}` shows how far it is.")
        raise


def _follow(admin: "AdminClient", topic: str, mode: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    told: int | None = None
    while True:
        state = topic_admin.mode_state(admin, topic)
        # A broker that does not know of the change yet reports nothing left to do.
        known = state.wanted == mode
        if known and not state.pending:
            return
        left = len(state.pending)
        if known and left != told:
            told = left
            print(f"{count(left, 'partition')} still changing to mode {mode}.", flush=True)
        if time.monotonic() >= deadline:
            raise CommandFailed(_late(topic, mode, state.pending))
        time.sleep(RECHECK_S)


def _late(topic: str, mode: str, pending: list[dict[str, Any]]) -> str:
    if not pending:
        return f"The cluster did not start the change of {topic} to mode {mode} in time."
    first = pending[0]
    return (
        f"{count(len(pending), 'partition')} of {topic} did not change to mode {mode} in time and will do so "
        f"when possible. Partition {first['partition']} ({first['mode']}) waits for {first['waits_for']}."
    )


def print_change(mode: str | None, pending: Iterable[Mapping[str, Any]]) -> None:
    """Which partitions have not changed their mode yet, and why."""
    rows = list(pending)
    if rows:
        print(f"\nChanging to mode {mode}; partitions that have not changed yet:\n")
        columns = {"partition": "partition", "mode": "mode now", "waits_for": "waits for"}
        print_table(rows, columns, right=("partition",))


def print_unconfirmed(pending: Iterable[Mapping[str, Any]]) -> None:
    """Which partitions have not confirmed a stronger setting yet, and why."""
    rows = list(pending)
    if rows:
        print("\nNot confirmed yet; the settings do not cover all earlier acknowledged records:\n")
        print_table(rows, {"partition": "partition", "waits_for": "waits for"}, right=("partition",))
