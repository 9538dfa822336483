"""The levels of this process's loggers, as Kafka's clients read and change them (resource BROKER_LOGGER).

A level holds until the broker ends. It is not part of the metadata, so a request is handled by the broker
that it names, without a controller. Nothing here knows what is logged, or where to.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.resources import BROKER_LOGGER
from tidelog.config import ConfigSource, ConfigType, DescribedSetting
from tidelog.config.incremental import AlterOperation
from tidelog.errors import ErrorCode, InvalidConfig, InvalidRequest, TidelogError
from tidelog.protocol.messages import Fields

ROOT = "root"
LEVELS: Mapping[str, int] = MappingProxyType(
    {
        "TRACE": 5,
        "DEBUG": logging.DEBUG,
        "INFO": logging.INFO,
        "WARN": logging.WARNING,
        "ERROR": logging.ERROR,
        "FATAL": logging.CRITICAL,
    }
)
"""Kafka's names, lowest first. Python has no TRACE: it is below DEBUG."""


def are_named_by(request: Any) -> bool:
    """Whether an IncrementalAlterConfigs changes levels of loggers and nothing else."""
    resources = request.resources
    return bool(resources) and all(each.resource_type == BROKER_LOGGER for each in resources)


def describe(broker: Broker, name: str) -> list[DescribedSetting]:
    """All loggers with the levels that are in effect, ``root`` first."""
    _check_is_here(broker, name)
    return [_described(each) for each in (ROOT, *sorted(logging.root.manager.loggerDict))]


def _described(name: str) -> DescribedSetting:
    return DescribedSetting(
        name=name,
        value=_level_of(name),
        source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
        read_only=False,
        sensitive=False,
        type=ConfigType.STRING,
        documentation="",
        synonyms=(),
    )


def _level_of(name: str) -> str:
    level = _effective_level(name)
    return next((each for each, least in reversed([*LEVELS.items()]) if level >= least), "TRACE")


def _effective_level(name: str) -> int:
    """Without creating a logger: a name may be there only as the parent of others."""
    known = logging.root.manager.loggerDict
    while name and name != ROOT:
        logger = known.get(name)
        if isinstance(logger, logging.Logger):
            return logger.getEffectiveLevel()
        name = name.rpartition(".")[0]
    return logging.root.level


def alter(broker: Broker, request: Any) -> Fields:
    """Handle an IncrementalAlterConfigs for which :func:`are_named_by` holds."""
    return {"responses": [_alter_one(broker, each, request.validate_only) for each in request.resources]}


def _alter_one(broker: Broker, resource: Any, validate_only: bool) -> Fields:
    response = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    try:
        _check_is_here(broker, resource.resource_name)
        # All of them are checked before any is changed.
        levels = {each.name: _new_level(each) for each in resource.configs}
        if len(levels) < len(resource.configs):
            raise InvalidRequest("a logger is changed twice in one request")
    except TidelogError as refusal:
        return {**response, "error_code": refusal.code, "error_message": refusal.message}
    if not validate_only:
        for name, level in levels.items():
            _logger(name).setLevel(level)
    return {**response, "error_code": ErrorCode.NONE, "error_message": None}


def _new_level(change: Any) -> int:
    """The level that a change asks for; NOTSET to inherit the level of the parent again."""
    name = change.name
    if name != ROOT and name not in logging.root.manager.loggerDict:
        raise InvalidConfig(f"there is no logger {name[:100]!r}")
    if change.config_operation == AlterOperation.DELETE:
        if name == ROOT:
            raise InvalidRequest("the level of the root logger cannot be deleted, because it inherits none")
        return logging.NOTSET
    if change.config_operation != AlterOperation.SET:
        raise InvalidRequest("levels of loggers can only be set and deleted")
    if change.value not in LEVELS:
        raise InvalidConfig(f"{str(change.value)[:100]!r} is no level; levels are {', '.join(LEVELS)}")
    return LEVELS[change.value]


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _check_is_here(broker: Broker, name: str) -> None:
    if name != str(broker.broker_id):
        raise InvalidRequest(f"this is broker {broker.broker_id}; ask broker {name!r} for its loggers")
