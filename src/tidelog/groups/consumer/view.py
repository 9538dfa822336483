"""The environment of a group at the time of an event. A broker's cluster image is a ``Topics``."""

from collections.abc import Mapping, Sized
from typing import NamedTuple, Protocol
from uuid import UUID

from tidelog import regex
from tidelog.config import BrokerConfig, GroupConfig
from tidelog.groups.effects import Now


class Topic(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> UUID: ...
    @property
    def partitions(self) -> Sized: ...


class Topics(Protocol):
    @property
    def topics(self) -> Mapping[str, Topic]:
        """By name. Immutable: a change of the cluster creates another mapping."""

    @property
    def topic_names(self) -> Mapping[UUID, str]: ...

    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """Overrides of groups that have some."""


class NoTopics:
    """A cluster without topics."""

    topics: Mapping[str, Topic] = {}
    topic_names: Mapping[UUID, str] = {}
    group_configs: Mapping[str, Mapping[str, str]] = {}


NO_TOPICS = NoTopics()
NO_MATCHES = regex.Matches()  # stays empty


class GroupContext(NamedTuple):
    now: Now
    topics: Topics
    config: BrokerConfig
    matches: regex.Matches = NO_MATCHES

    def group_config(self, group_id: str) -> GroupConfig:
        return GroupConfig.resolve(self.topics.group_configs.get(group_id, {}), self.config)
