"""The settings of a topic that the controller's decisions go by, as they are at a place in the metadata log.

A setting takes effect with its record and not before or after: a controller that took the minimum for larger
than a leader does would count on members that the leader has long gone on without.
"""

from collections.abc import Mapping

from tidelog.config import BrokerConfig, TopicConfig
from tidelog.controller.image import ClusterImage, TopicImage
from tidelog.controller.successions.steps import Rules, RulesOf

SYNC_EVERY_MESSAGE = 1


class Rulebook:
    def __init__(self, config: BrokerConfig) -> None:
        self._static = config
        self._defaults: Mapping[str, str] = {}  # of all brokers, as the metadata has them
        self._chapter = _Chapter(config.with_dynamic({}))

    def at(self, image: ClusterImage) -> RulesOf:
        """The rules of any topic of this image."""
        defaults = image.broker_configs.get("", {})
        if defaults != self._defaults:
            self._defaults = defaults
            self._chapter = _Chapter(self._static.with_dynamic({}, defaults))
        return self._chapter.rules_of


class _Chapter:
    """The rules while the settings of the brokers stay as they are. Many topics have the same overrides."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._known: dict[frozenset[tuple[str, str]], Rules] = {}

    def rules_of(self, topic: TopicImage) -> Rules:
        key = frozenset(topic.configs.items())
        rules = self._known.get(key)
        if rules is None:
            settings = TopicConfig.resolve(topic.configs, self._config)
            rules = self._known[key] = Rules(
                settings.min_insync_replicas,
                settings.unclean_leader_election_enable,
                synced=settings.flush_messages == SYNC_EVERY_MESSAGE,
            )
        return rules
