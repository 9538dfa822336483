"""A topic's settings as far as the controller's decisions go."""

from tidelog.config import BrokerConfig, TopicConfig
from tidelog.controller.elections import Rules, RulesOf
from tidelog.controller.image import TopicImage

SYNC_EVERY_MESSAGE = 1


def rules_from(config: BrokerConfig) -> RulesOf:
    """The rules of any topic on brokers with these settings."""

    def rules_of(topic: TopicImage) -> Rules:
        resolved = TopicConfig.resolve(topic.configs, config)
        return Rules(
            resolved.min_insync_replicas,
            resolved.unclean_leader_election_enable,
            synced=resolved.flush_messages == SYNC_EVERY_MESSAGE,
        )

    return rules_of
