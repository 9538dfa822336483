"""The settings of a topic, as clusters tell them → what its promise depends on."""

from collections.abc import Mapping
from typing import Any

from tidelog.config import TOPIC_SETTINGS
from tidelog.config.modes import ISR
from tidelog.planner.promises import SYNC_EVERY_MESSAGE, Terms

MODE = "replication.mode"
DECIDING = (
    MODE, "min.insync.replicas", "flush.messages", "unclean.leader.election.enable",
    "replication.degrade.after.ms",
)  # fmt: skip
"""The settings that decide about a promise."""


def terms_of_settings(settings: Mapping[str, str], replicas: int) -> Terms:
    """Of values as they are written. A cluster without modes is Kafka's."""
    values = {name: TOPIC_SETTINGS[name].parse(value) for name, value in settings.items() if name in DECIDING}
    return terms_of_values(values, replicas)._replace(kafka=MODE not in values)


def terms_of_values(values: Mapping[str, Any], replicas: int) -> Terms:
    """Of parsed values."""
    return Terms(
        values.get(MODE, ISR),
        replicas,
        min_in_sync=values["min.insync.replicas"],
        synced=values["flush.messages"] == SYNC_EVERY_MESSAGE,
        unclean=values["unclean.leader.election.enable"],
        degrades=values.get("replication.degrade.after.ms", -1) >= 0,
    )
