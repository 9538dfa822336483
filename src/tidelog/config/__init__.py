"""All settings of brokers and topics: typed, with default, range and documentation in one table.

``BrokerConfig`` (broker.py) and ``TopicConfig`` (topic.py) are the tables and the typed values at once. This package
knows no file, no clock and no request: text and mappings come in, typed values, refusals and descriptions go out.
"""

from tidelog.config.broker import BROKER_SETTINGS, BrokerConfig, broker_setting
from tidelog.config.checks import check_dynamic_broker, check_topic_overrides
from tidelog.config.kinds import ConfigType, Raw
from tidelog.config.listeners import Listener
from tidelog.config.table import Setting
from tidelog.config.toml import read_toml, write_toml
from tidelog.config.topic import TOPIC_SETTINGS, TopicConfig, topic_setting

__all__ = [
    "BROKER_SETTINGS",
    "TOPIC_SETTINGS",
    "BrokerConfig",
    "ConfigType",
    "Listener",
    "Raw",
    "Setting",
    "TopicConfig",
    "broker_setting",
    "check_dynamic_broker",
    "check_topic_overrides",
    "read_toml",
    "topic_setting",
    "write_toml",
]
