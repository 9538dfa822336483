"""The settings of a topic, as clusters tell them → what its promise depends on."""

from collections.abc import Mapping
from typing import Any

from tidelog.config import TOPIC_SETTINGS
from tidelog.config.modes import ISR
from tidelog.planner.promises import SYNC_EVERY_MESSAGE, Terms

DECIDING = (
    "replication.mode", "min.insync.replicas", "flush.messages", "unclean.leader.election.enable",
    "replication.degrade.after.ms",
)  # fmt: skip
"""The settings that decide about a promise."""


def terms_of_settings(settings: Mapping[str, str], replicas: int) -> Terms:
    """Of values as they are written. What a cluster does not have (Kafka has no modes) is as in Kafka."""
    values = {name: TOPIC_SETTINGS[name].parse(value) for name, value in settings.items() if name in DECIDING}
    return terms_of_values(values, replicas)


def terms_of_values(values: Mapping[str, Any], replicas: int) -> Terms:
    """Of parsed values."""
    return Terms(
        values.get("replication.mode", ISR),
        replicas,
        min_in_sync=values["min.insync.replicas"],
        synced=values["flush.messages"] == SYNC_EVERY_MESSAGE,
        unclean=values["unclean.leader.election.enable"],
        degrades=values.get("replication.degrade.after.ms", -1) >= 0,
    )
