"""All settings of brokers and topics: typed, with default, range and documentation in one table.

``TopicConfig`` (topic.py) and ``BrokerConfig`` (broker_table.py, broker.py) are the tables and the typed
values at once. This package knows no file, no clock and no request: text and mappings come in; typed
values, refusals and descriptions go out. ``python -m tidelog.config`` prints the documentation of all
settings.
"""

from tidelog.config.broker import (
    BROKER_SETTINGS,
    BrokerConfig,
    broker_setting,
    canonical_name,
    check_dynamic_broker,
)
from tidelog.config.checks import check_topic_overrides
from tidelog.config.describe import (
    ConfigSource,
    DescribedSetting,
    SettingSynonym,
    describe_broker,
    describe_group,
    describe_topic,
)
from tidelog.config.group import GROUP_SETTINGS, GroupConfig, check_group_overrides, group_setting
from tidelog.config.incremental import AlterOp, AlterOperation, apply_incremental
from tidelog.config.kinds import ConfigType, Raw
from tidelog.config.listeners import Listener, SecurityProtocol
from tidelog.config.modes import MODES
from tidelog.config.table import Setting
from tidelog.config.toml import read_toml
from tidelog.config.topic import TOPIC_SETTINGS, TopicConfig, topic_setting

__all__ = [
    "BROKER_SETTINGS",
    "GROUP_SETTINGS",
    "MODES",
    "TOPIC_SETTINGS",
    "AlterOp",
    "AlterOperation",
    "BrokerConfig",
    "ConfigSource",
    "ConfigType",
    "DescribedSetting",
    "GroupConfig",
    "Listener",
    "Raw",
    "SecurityProtocol",
    "Setting",
    "SettingSynonym",
    "TopicConfig",
    "apply_incremental",
    "broker_setting",
    "canonical_name",
    "check_dynamic_broker",
    "check_group_overrides",
    "check_topic_overrides",
    "describe_broker",
    "describe_group",
    "describe_topic",
    "group_setting",
    "read_toml",
    "topic_setting",
]
