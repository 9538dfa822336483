"""Levels of loggers: read and changed by Kafka's names, on the broker that is asked."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tidelog.errors import ErrorCode
from unit.broker.fakes import FakeBroker
from unit.broker.handlers.config_requests import BROKER, alter, describe, resource, settings

BROKER_LOGGER = 8
SET, DELETE, APPEND = range(3)
PARENT, NAME = "levels.of", "levels.of.loggers"
LOGGER_CONFIG = 6


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    root = logging.root.level
    logging.root.setLevel(logging.WARNING)
    logging.getLogger(NAME)
    yield
    logging.root.setLevel(root)
    for name in (PARENT, NAME):
        logging.getLogger(name).setLevel(logging.NOTSET)


def increment(broker: FakeBroker, *changes: tuple[Any, ...], name: str = "1", **more: Any) -> int:
    wanted = resource(BROKER_LOGGER, name, *changes)
    (code,) = alter(broker, wanted, api="incremental_alter_configs", **more)
    return code


def levels(broker: FakeBroker) -> dict[str, tuple[str | None, int]]:
    return settings(describe(broker, BROKER_LOGGER, "1"))


def test_set_and_delete(broker: FakeBroker) -> None:
    assert levels(broker)[NAME] == ("WARN", LOGGER_CONFIG)
    assert increment(broker, (NAME, SET, "DEBUG")) == 0
    assert logging.getLogger(NAME).isEnabledFor(logging.DEBUG)
    assert levels(broker)[NAME] == ("DEBUG", LOGGER_CONFIG)
    assert increment(broker, (NAME, DELETE, None)) == 0
    assert levels(broker)[NAME] == ("WARN", LOGGER_CONFIG)


def test_a_name_that_only_has_children_can_be_set(broker: FakeBroker) -> None:
    assert levels(broker)[PARENT][0] == "WARN"
    assert increment(broker, (PARENT, SET, "ERROR")) == 0
    assert (levels(broker)[PARENT][0], levels(broker)[NAME][0]) == ("ERROR", "ERROR")


@pytest.mark.parametrize("level", ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"])
def test_every_level_of_the_root(broker: FakeBroker, level: str) -> None:
    assert increment(broker, ("root", SET, level)) == 0
    assert (levels(broker)["root"][0], levels(broker)[NAME][0]) == (level, level)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("no.such.logger", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (("no.such.logger", DELETE, None), ErrorCode.INVALID_CONFIG),
        ((NAME, SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        ((NAME, SET, None), ErrorCode.INVALID_CONFIG),
        ((NAME, APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_nothing_is_changed_by_a_request_with_one_refused_change(
    broker: FakeBroker, change: tuple[Any, ...], code: ErrorCode
) -> None:
    before = levels(broker)
    assert increment(broker, (PARENT, SET, "DEBUG"), change) == code
    assert levels(broker) == before


def test_a_logger_is_changed_once_in_a_request(broker: FakeBroker) -> None:
    assert increment(broker, (NAME, SET, "INFO"), (NAME, SET, "DEBUG")) == ErrorCode.INVALID_REQUEST
    assert levels(broker)[NAME][0] == "WARN"


def test_only_to_see_whether_it_would_work(broker: FakeBroker) -> None:
    assert increment(broker, (NAME, SET, "DEBUG"), validate_only=True) == 0
    assert levels(broker)[NAME][0] == "WARN"


@pytest.mark.parametrize("name", ["", "2", "one"])
def test_loggers_of_another_broker(broker: FakeBroker, name: str) -> None:
    assert increment(broker, (NAME, SET, "DEBUG"), name=name) == ErrorCode.INVALID_REQUEST
    assert describe(broker, BROKER_LOGGER, name).error_code == ErrorCode.INVALID_REQUEST


def test_together_with_other_settings(broker: FakeBroker) -> None:
    wanted = resource(BROKER_LOGGER, "1", (NAME, SET, "DEBUG"))
    other = resource(BROKER, "", ("log.retention.ms", SET, "9"))
    codes = alter(broker, wanted, other, api="incremental_alter_configs")
    assert codes == [ErrorCode.INVALID_REQUEST, 0]
    assert levels(broker)[NAME][0] == "WARN"
