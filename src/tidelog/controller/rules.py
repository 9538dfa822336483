"""The settings of a topic on which the controller's decisions depend, as of an offset of the metadata log.

A setting takes effect with its record, not before and not after. If the controller assumed a larger minimum
than a leader does, it would rely on members without which the leader has committed records.
"""

from collections.abc import Mapping

from tidelog.config import BrokerConfig, TopicConfig
from tidelog.config.modes import MODES
from tidelog.config.topic import REPLICATION_MODE
from tidelog.controller.image import ClusterImage, TopicImage
from tidelog.controller.successions.steps import Rules, RulesOf

SYNC_EVERY_MESSAGE = 1


class Rulebook:
    def __init__(self, config: BrokerConfig) -> None:
        self._static = config
        self._defaults: Mapping[str, str] = {}  # defaults of all brokers, from the metadata
        self._chapter = _Chapter(config.with_dynamic({}))

    def at(self, image: ClusterImage) -> RulesOf:
        """A function that gives the rules of any topic of this image."""
        defaults = image.broker_configs.get("", {})
        if defaults != self._defaults:
            self._defaults = defaults
            self._chapter = _Chapter(self._static.with_dynamic({}, defaults))
        return self._chapter.rules_of


class _Chapter:
    """The rules as long as the brokers' settings do not change. Cached, because many topics have the same
    overrides.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._known: dict[frozenset[tuple[str, str]], Rules] = {}

    def rules_of(self, topic: TopicImage) -> Rules:
        key = frozenset(topic.configs.items())
        rules = self._known.get(key)
        if rules is None:
            rules = self._known[key] = self._rules_for(topic.configs)
        # During a change of mode, some partitions may not have the new mode's syncs yet. Only then are the
        # partitions looked at: there may be thousands, and these are the rules of every single decision.
        modes = (partition.mode for partition in topic.partitions)
        if rules.synced and not rules.synced_modes.issuperset(modes):
            return rules._replace(synced=False)
        return rules

    def _rules_for(self, overrides: Mapping[str, str]) -> Rules:
        settings = TopicConfig.resolve(overrides, self._config)
        synced = frozenset(mode for mode in MODES if self._is_synced(overrides, mode))
        return Rules(
            settings.min_insync_replicas,
            settings.unclean_leader_election_enable,
            synced=synced >= {settings.replication_mode},
            mode=settings.replication_mode,
            synced_modes=synced,
            degrades=settings.replication_degrade_after_ms >= 0,
        )

    def _is_synced(self, overrides: Mapping[str, str], mode: str) -> bool:
        settings = TopicConfig.resolve({**overrides, REPLICATION_MODE: mode}, self._config)
        return settings.flush_messages == SYNC_EVERY_MESSAGE
