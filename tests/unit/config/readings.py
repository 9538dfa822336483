"""Readings of settings, and their refusals."""

import pytest

from tidelog.config import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    BrokerConfig,
    TopicConfig,
)
from tidelog.config.kinds import Raw
from tidelog.errors import ErrorCode, InvalidConfig

ALL_SETTINGS = [*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values()]


def refusal(values: dict[str, Raw]) -> str:
    with pytest.raises(InvalidConfig) as caught:
        BrokerConfig.parse(values)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    return caught.value.message


def topic(overrides: dict[str, str], **broker: Raw) -> TopicConfig:
    return TopicConfig.resolve(
        overrides, BrokerConfig.parse({k.replace("_", "."): v for k, v in broker.items()})
    )
