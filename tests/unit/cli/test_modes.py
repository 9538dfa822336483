"""``tidelog modes``: the table, and what of a topic's description decides about its promise."""

import json

import pytest

from tidelog.cli.app import app
from tidelog.cli.modes import QUESTIONS
from tidelog.cli.topic.promised import terms_of
from tidelog.config import TOPIC_SETTINGS
from tidelog.planner.promises import Terms


def run(*words: str) -> None:
    with pytest.raises(SystemExit) as end:
        app(list(words))
    assert end.value.code == 0


def test_the_comparison_needs_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    run("modes")
    told = capsys.readouterr().out
    assert "primary-backup, 2 copies" in told
    assert max(map(len, told.splitlines())) <= 150


def test_as_json_every_question_is_answered_for_every_mode(capsys: pytest.CaptureFixture[str]) -> None:
    run("modes", "--json")
    promises = json.loads(capsys.readouterr().out)
    assert [each["mode"] for each in promises] == ["isr", "primary-backup", "primary-backup", "quorum"]
    assert [each["copies"] for each in promises] == [2, 1, 2, 2]
    assert [each["least_replicas"] for each in promises] == [2, 1, 2, 3]
    assert all(QUESTIONS.keys() <= each.keys() for each in promises)


def test_the_promise_of_a_topic_is_that_of_its_settings() -> None:
    settings = {name: setting.default_text for name, setting in TOPIC_SETTINGS.items()}
    settings |= {"min.insync.replicas": "3", "flush.messages": "1", "unclean.leader.election.enable": "true"}
    description = {
        "settings": [{"name": name, "value": value} for name, value in settings.items()],
        "partitions": [{"replicas": [1, 2, 3, 4]}, {"replicas": [1, 2, 3]}],
    }
    assert terms_of(description) == Terms("isr", 3, min_in_sync=3, synced=True, unclean=True)
