"""``tidelog plan`` as a user has it, without a cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from tidelog.cli.app import run


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert run(["plan", *words]) == code
    captured = capsys.readouterr()
    return captured.out + captured.err


def as_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    assert run(["plan", *words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_needs(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--brokers", "5", "--survive-writes", "2", "--survive-data", "2", "--order", "strict")
    assert text.startswith("Use isr with 5 replicas, min.insync.replicas=3")
    assert "Writes stop if:\n\n- Any 3 of the brokers 1, 2, 3, 4 and 5 are cut off or down." in text
    assert "tidelog topic create NAME --replicas 5 --mode isr" in text


class TestTheExercise:
    WORDS = ("--from", "dledger", "--brokers", "5", "--replicas", "5", "--queues", "50")

    def test_the_settings(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = as_json(capsys, *self.WORDS)
        assert found["today"]["mode"] == "quorum"
        isr = found["isr_equivalent"]
        assert (isr["mode"], isr["replicas"], isr["topic_settings"]["min.insync.replicas"]) == ("isr", 5, "3")
        assert isr["topic_settings"]["unclean.leader.election.enable"] == "false"
        assert isr["producer_settings"] == {"acks": "all", "enable.idempotence": "true"}
        assert (
            isr["tolerates"]["dead_brokers_for_writes"]
            == found["today"]["tolerates"]["dead_brokers_for_writes"]
        )
        assert "--partitions 50" in found["isr_command"]

    def test_the_reasons(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = said(capsys, *self.WORDS)
        assert "50 partitions, 10 led by each broker" in text
        assert "An acknowledgement means at least 3 copies." in text
        assert "Any 2 dead: writes go on." in text
        assert "isr waits for every member of the in-sync set" in text
        assert "isr needs the controllers to appoint a leader" in text


def test_what_a_kafka_topic_really_has(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--from", "kafka", "--replicas", "3", "--min-isr", "1", "--acks", "1", "--unclean")
    assert "- Broker 1 (the leader) loses its disk, loses power, is cut off or is down." in text


def test_a_properties_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# a comment\ndefault.replication.factor=3\nmin.insync.replicas = 2\nturbo=1\n")
    found = as_json(capsys, "--from", "kafka", "--file", str(file))
    assert (found["today"]["replicas"], found["today"]["copies"]) == (3, 2)
    assert found["not_translated"][0].startswith("turbo: not known")


def test_a_report_in_markdown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said(capsys, "--brokers", "3", "--survive-writes", "1", "--to", str(tmp_path / "plan.md"))
    text = (tmp_path / "plan.md").read_text(encoding="utf-8")
    assert text.startswith("# Plan\n\n## Use isr")
    assert "| settings |" in text
    assert "Ford et al." in text


def test_impossible_needs(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--brokers", "3", "--survive-writes", "2", "--survive-data", "2", code=1)
    assert text.startswith("No settings satisfy these needs")
    assert "- --brokers 5 instead of 3" in text


BAD = [
    (("--brokers", "3", "--survive-writes", "3"), "at least one has to be left"),
    (("--from", "dledger", "--replicas", "5", "--brokers", "3"), "5 replicas need 5 brokers"),
    (("--from", "pulsar"), "There is no system 'pulsar'; known are kafka, rocketmq"),
    (("--replicas", "3"), "name it with --from"),
    (("--from", "kafka", "--acks", "2"), "it is 0, 1 or all"),
    (("--from", "kafka", "--set", "min.insync.replicas=two"), "is not a number"),
    (("--from", "kafka", "--file", "/nowhere/server.properties"), "cannot be read"),
    (("--brokers", "3", "--rate", "luck=1"), "There is no rate 'luck'"),
    (("--brokers", "3", "--rate", "disk_losses=many"), "is not a number"),
    (("--brokers", "2", "--replicas-max", "3"), "is more than the 2 brokers"),
    (("what-if", "--dead", "one"), "is not a list of broker numbers"),
]


@pytest.mark.parametrize(("words", "expected"), BAD)
def test_bad_input(words: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, *words, code=1)
    assert expected in text
    assert text.count("\n") == 1


def test_without_needs_it_asks_five_questions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = iter(["3", "many", "1", "1", "yes", "yes"])
    asked: list[str] = []

    def prompt(text: str, default: str) -> str:
        asked.append(text)
        return next(replies)

    monkeypatch.setattr("typer.prompt", prompt)
    text = said(capsys)
    assert len(dict.fromkeys(asked)) == 5
    assert "Please answer with a number." in text
    assert "Use quorum with 3 replicas, flushed" in text


def test_rates_change_the_years(capsys: pytest.CaptureFixture[str]) -> None:
    usual = as_json(capsys, "--brokers", "3", "--survive-writes", "1")
    worse = as_json(capsys, "--brokers", "3", "--survive-writes", "1", "--rate", "broker_failures=300")
    key = "minutes_without_writes_per_year"
    assert worse["years"][0][key] > usual["years"][0][key]
