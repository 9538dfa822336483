"""Checks of the overrides that clients ask for on a topic.

A refusal is an ``InvalidConfig`` that names the setting, the value and what is allowed. What is allowed but
probably not meant comes back as warnings, one plain sentence each. Settings are checked one by one, then
with each other; the checks of a single value live with its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.config.modes import DEFAULTS, LEAST_REPLICAS, QUORUM, WITHOUT_MEANING
from tidelog.config.table import refuse
from tidelog.config.topic import TOPIC_SETTINGS, topic_setting
from tidelog.errors import InvalidConfig
from tidelog.types import majority

_ONLY_DELETE = ("retention.ms", "retention.bytes")
_ONLY_COMPACT = (
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
)


def check_topic_overrides(overrides: Mapping[str, str], replicas: int | None) -> list[str]:
    """Refuse overrides that cannot be; return warnings about those that can. ``replicas`` where known."""
    given = {name: topic_setting(name).parse(text) for name, text in overrides.items()}
    mode = _value(given, "replication.mode")
    refuse_without_meaning(given, mode)
    _refuse_too_few(mode, replicas)
    lag = _value(given, "max.compaction.lag.ms")
    if _value(given, "min.compaction.lag.ms") > lag:
        # A record would have to be compacted before it may be.
        refuse(
            "min.compaction.lag.ms", given["min.compaction.lag.ms"], f"at most max.compaction.lag.ms, {lag}"
        )
    return [
        *_replica_warnings(given, replicas),
        *_MODE_WARNINGS.get(mode, _no_warnings)(given, replicas),
        *_policy_warnings(given),
    ]


def refuse_without_meaning(overrides: Mapping[str, object], mode: str) -> None:
    """Refuse settings that the topic's replication mode would ignore."""
    for name, reason in WITHOUT_MEANING[mode].items():
        if name in overrides:
            raise InvalidConfig(f"{name} has no meaning in mode {mode}: {reason}.")


def _refuse_too_few(mode: str, replicas: int | None) -> None:
    least = LEAST_REPLICAS[mode]
    if replicas is None or replicas >= least:
        return
    raise InvalidConfig(
        f"replication.mode={mode} is refused for {replicas} {'replica' if replicas == 1 else 'replicas'}: "
        "writes need a majority, which is all of them, and would stop with the first failure; use at "
        f"least {least}, or use isr."
    )


def _quorum_warnings(given: Mapping[str, Any], replicas: int | None) -> list[str]:
    warnings = []
    if replicas is not None and replicas % 2 == 0:
        needed, fewer = majority(replicas), replicas - 1
        warnings.append(
            f"replication.mode=quorum with {replicas} replicas tolerates no more failures than with {fewer}: "
            f"a write waits for {needed} copies instead of {majority(fewer)}, and {replicas - needed} may be "
            "down either way."
        )
    flush = given.get("flush.messages", DEFAULTS[QUORUM]["flush.messages"])
    if flush != DEFAULTS[QUORUM]["flush.messages"]:
        warnings.append(
            f"flush.messages={flush} in mode quorum: an acknowledged record is not always on disk on a "
            "majority of the replicas; if a majority loses power together, acknowledged records can be lost."
        )
    return warnings


def _no_warnings(given: Mapping[str, Any], replicas: int | None) -> list[str]:
    return []


_MODE_WARNINGS = {QUORUM: _quorum_warnings}


def _replica_warnings(given: Mapping[str, Any], replicas: int | None) -> list[str]:
    warnings = []
    copies = given.get("min.insync.replicas")
    if copies is not None and replicas is not None:
        if copies > replicas:
            # Every acks=all write would be refused for ever.
            refuse("min.insync.replicas", copies, f"at most the number of the topic's replicas, {replicas}")
        if copies == replicas > 1:
            warnings.append(
                f"min.insync.replicas={copies} with {replicas} replicas: writes with acks=all stop when one "
                "of them is down."
            )
    if given.get("unclean.leader.election.enable") and replicas != 1:
        warnings.append(
            "unclean.leader.election.enable=true: when all in-sync replicas are down, a new leader may lack "
            "records that were acknowledged."
        )
    return warnings


def _policy_warnings(given: Mapping[str, Any]) -> list[str]:
    policy = given.get("cleanup.policy")
    if policy is None:
        # The broker's default decides, and can change later.
        return []
    idle: tuple[str, ...] = ()
    if "delete" not in policy:
        idle += _ONLY_DELETE
    if "compact" not in policy:
        idle += _ONLY_COMPACT
    shown = TOPIC_SETTINGS["cleanup.policy"].format(policy)
    return [f"{name} has no effect while cleanup.policy={shown}." for name in idle if name in given]


def _value(given: Mapping[str, Any], name: str) -> Any:
    return given.get(name, TOPIC_SETTINGS[name].default)
