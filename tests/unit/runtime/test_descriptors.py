"""Open files are divided between logs and connections."""

import resource

import pytest

from tidelog.config import BrokerConfig
from tidelog.runtime import descriptors
from tidelog.runtime.descriptors import NO_LIMIT, SPARE, Descriptors, divide

CONFIG = BrokerConfig.parse({})
LOGS = CONFIG.log_open_files_max


@pytest.mark.parametrize("limit", [1, 20, 256, 1024, 4096, 65_536, NO_LIMIT])
def test_they_are_never_more_than_there_are(limit: int) -> None:
    divided = divide(limit, CONFIG)
    assert divided.logs >= 1
    assert divided.connections >= 1
    assert divided.logs + divided.connections <= max(limit, 2)


def test_a_usual_limit_leaves_the_logs_what_is_set() -> None:
    assert divide(20_000, CONFIG) == Descriptors(LOGS, 20_000 - LOGS - SPARE)


def test_with_few_descriptors_both_get_some() -> None:
    assert divide(1024, CONFIG) == Descriptors(384, 384)


def test_the_limit_of_the_process_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 30_000))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: asked.append(pair))
    assert descriptors.claim(CONFIG) == Descriptors(LOGS, 30_000 - LOGS - SPARE)
    assert asked == [(30_000, 30_000)]


def test_less_than_the_settings_want_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    assert descriptors.claim(CONFIG) == Descriptors(384, 384)
    assert "the process may open 1024 files" in caplog.text
