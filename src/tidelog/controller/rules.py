"""The settings of a topic that the controller's decisions go by, as they are at a place in the metadata log.

A setting takes effect with its record and not before or after: a controller that took the minimum for larger
than a leader does would count on members that the leader has long gone on without.
"""

from collections.abc import Mapping

from tidelog.config import BrokerConfig, TopicConfig
from tidelog.controller.elections import Rules, RulesOf
from tidelog.controller.image import ClusterImage, TopicImage

SYNC_EVERY_MESSAGE = 1


class Rulebook:
    def __init__(self, config: BrokerConfig) -> None:
        self._static = config
        self._defaults: Mapping[str, str] = {}  # of all brokers, as the metadata has them
        self._resolved = config.with_dynamic({})

    def at(self, image: ClusterImage) -> RulesOf:
        """The rules of any topic of this image."""
        defaults = image.broker_configs.get("", {})
        if defaults != self._defaults:
            self._defaults = defaults
            self._resolved = self._static.with_dynamic({}, defaults)
        resolved = self._resolved
        return lambda topic: _rules(topic, resolved)


def _rules(topic: TopicImage, config: BrokerConfig) -> Rules:
    settings = TopicConfig.resolve(topic.configs, config)
    return Rules(
        settings.min_insync_replicas,
        settings.unclean_leader_election_enable,
        synced=settings.flush_messages == SYNC_EVERY_MESSAGE,
    )
