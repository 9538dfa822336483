"""Changing settings of topics and brokers."""

from collections.abc import Mapping

from tidelog.config import check_dynamic_broker, check_topic_overrides
from tidelog.controller import topics
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import BrokerConfigChanged, TopicConfigChanged


def change_topic(image: ClusterImage, name: str, wanted: Mapping[str, str]) -> TopicConfigChanged:
    """Make ``wanted`` the topic's overrides, all of them."""
    topic = topics.require(image, name)
    check_topic_overrides(wanted, len(topic.partitions[0].replicas))
    return TopicConfigChanged(topic.topic_id, _difference(topic.configs, wanted))


def change_broker(image: ClusterImage, broker: str, wanted: Mapping[str, str]) -> BrokerConfigChanged:
    """Make ``wanted`` the dynamic settings of a broker ("" for all of them)."""
    check_dynamic_broker(wanted)
    return BrokerConfigChanged(broker, _difference(image.broker_configs.get(broker, {}), wanted))


def _difference(current: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = dict.fromkeys(current.keys() - wanted.keys())
    changes.update((key, value) for key, value in wanted.items() if current.get(key) != value)
    return changes
