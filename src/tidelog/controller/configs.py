"""Changing settings of topics and brokers."""

import logging
from collections.abc import Mapping

from tidelog.config import BrokerConfig, check_dynamic_broker, check_group_overrides, check_topic_overrides
from tidelog.config.topic import mode_of
from tidelog.controller import promises, topics
from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.cluster_settings import CLUSTER_WIDE_SETTINGS
from tidelog.controller.image import ClusterImage
from tidelog.controller.leader_assignment import assign_leaders, assign_topic_leaders
from tidelog.controller.records import (
    BrokerConfigChanged,
    GroupConfigChanged,
    MetadataRecord,
    TopicConfigChanged,
)
from tidelog.controller.rules import Rulebook
from tidelog.controller.successions import mode_changes
from tidelog.errors import InvalidConfig, InvalidRequest

logger = logging.getLogger(__name__)

EVERY_BROKER = ""


def change_topic(
    image: ClusterImage, name: str, wanted: Mapping[str, str], rules: Rulebook
) -> list[MetadataRecord]:
    """Make ``wanted`` the complete set of the topic's overrides.

    With a smaller ``min.insync.replicas`` a leader may commit records that former members lack, from this
    record on: so with this record they stop being eligible. If unclean elections become allowed, a partition
    without a leader gets one. If the replication mode changes, every partition that can takes its first step.
    If syncs or copies are newly required, every partition records what is not yet fulfilled.
    """
    topic = topics.require(image, name)
    for warning in check_topic_overrides(wanted, min(len(each.target) for each in topic.partitions)):
        logger.warning("topic %s: %s", name, warning)
    topics.check_mode_of_internal(name, wanted)
    mode_changes.check_start(topic, mode_of(wanted))
    change = TopicConfigChanged(topic.topic_id, _difference(topic.configs, wanted))
    old = rules.at(image)(topic)
    after = image.apply([change])
    new = rules.at(after)(after.topics[name])
    promised = list(promises.of_topic(topic, old, after.topics[name], new))
    after = after.apply(promised)
    mode_records = list(mode_changes.wanted_mode_changed(after.topics[name], since=topic))
    after = after.apply(mode_records)
    return [
        change,
        *promised,
        *mode_records,
        *assign_topic_leaders(after.topics[name], BrokerAvailability.of(after), new),
    ]


def change_broker(
    image: ClusterImage, broker: str, wanted: Mapping[str, str], rules: Rulebook
) -> list[MetadataRecord]:
    """Make ``wanted`` the dynamic settings of a broker ("" for all brokers)."""
    if broker != EVERY_BROKER and not any(str(known) == broker for known in image.brokers):
        raise InvalidRequest(f"there is no broker {broker!r}")
    check_dynamic_broker(wanted)
    current = image.broker_configs.get(broker, {})
    for name in CLUSTER_WIDE_SETTINGS:
        if broker != EVERY_BROKER and name in wanted and current.get(name) != wanted[name]:
            raise InvalidConfig(f"{name} must be the same on all brokers: set it for all of them.")
    change = BrokerConfigChanged(broker, _difference(current, wanted))
    old = rules.at(image)
    after = image.apply([change])
    promised = list(promises.of_all(image, old, after, rules.at(after)))
    after = after.apply(promised)
    return [change, *promised, *assign_leaders(after, rules.at(after))]


def change_group(
    image: ClusterImage, group: str, wanted: Mapping[str, str], config: BrokerConfig
) -> list[MetadataRecord]:
    """Make ``wanted`` the complete set of the group's overrides. The group need not exist yet."""
    if not group:
        raise InvalidRequest("the settings of a group need its name")
    check_group_overrides(wanted, config)
    return [GroupConfigChanged(group, _difference(image.group_configs.get(group, {}), wanted))]


def _difference(current: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = dict.fromkeys(current.keys() - wanted.keys())
    changes.update((key, value) for key, value in wanted.items() if current.get(key) != value)
    return changes
