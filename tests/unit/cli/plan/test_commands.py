"""``tidelog plan`` as a user has it, without a cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from tidelog.cli.app import run
from tidelog.cli.plan import costing
from tidelog.cli.plan.proving import Proof
from tidelog.planner.costs import Figures

CALIBRATED = Figures(
    (0.5,) * 101, (0.0,) * 101, (0.2,) * 101, (1.0,) * 101, 0.002, 0.001, 0.002, 1.8, 0.0, 0.02
)


@pytest.fixture(autouse=True)
def no_calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have calibrated."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


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


def test_a_properties_file_as_java_has_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    lines = (
        "\ufeff! a comment",
        "default.replication.factor: 3",
        "min.insync.\\",
        "   replicas=\\",
        " 2",
        "listeners=PLAINTEXT://:9092,\\",
        "    SSL://:9093",
        "unclean.leader.election.enable true",
        "turb\\u006f=1",
        "",
        "log.dirs=C:\\\\data\\\\",
    )
    file.write_text("\n".join(lines), encoding="utf-8")
    found = as_json(capsys, "--from", "kafka", "--file", str(file))
    assert (found["today"]["replicas"], found["today"]["copies"]) == (3, 2)
    assert found["today"]["topic_settings"]["unclean.leader.election.enable"] == "true"
    assert [each.partition(":")[0] for each in found["not_translated"]] == ["turbo"]
    file.write_text("a=1\n\n  nonsense\n")
    assert "line 3: 'nonsense' is not NAME=VALUE." in said(
        capsys, "--from", "kafka", "--file", str(file), code=1
    )


def test_a_report_in_markdown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said(capsys, "--brokers", "3", "--survive-writes", "1", "--to", str(tmp_path / "plan.md"))
    text = (tmp_path / "plan.md").read_text(encoding="utf-8")
    assert text.startswith("# Plan\n\n## Use isr")
    assert "| settings |" in text
    assert "Backblaze Drive Stats" in text


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
    (("--from", "kafka", "--set", "min.insync.replicas=two"), "min.insync.replicas is 'two'; it is a number"),
    (("--from", "rabbitmq", "--replicas", "9", "--brokers", "9"), "computed for up to 7"),
    (("--from", "kafka", "--set", "acks"), "expected KEY=VALUE"),
    (("--brokers", "3", "--survive-racks", "1"), "--survive-racks needs --racks"),
    (("--brokers", "3", "--racks", "2", "--survive-racks", "2"), "with 2 racks: at least one has to be left"),
    (("--brokers", "3", "--racks", "4"), "--racks 4 is more than the 3 brokers"),
    (("--from", "kafka", "--file", "/nowhere/server.properties"), "cannot be read"),
    (("--brokers", "3", "--rate", "luck=1"), "There is no rate 'luck'"),
    (("--brokers", "3", "--rate", "disk_losses=many"), "is not a number"),
    (("--brokers", "2", "--replicas-max", "3"), "is more than the 2 brokers"),
    (("--brokers", "3", "--rate", "disk_losses=nan"), "must be a positive number"),
    (("--brokers", "3", "--rate", "broker_failures=inf"), "must be a positive number"),
    (("--brokers", "3", "--rate", "disk_losses=1e9"), "must be at most 1e+06"),
    (("--brokers", "3", "--rate", "disk_repair_h=1e-9"), "must be from 0.0001 to 1e+06 hours"),
    (("--from", "kafka", "--replicas", "3", "--survive-writes", "2"), "Give one or the other"),
    (("--from", "kafka", "--replicas", "3", "--power"), "Give one or the other"),
    (("--from", "dledger", "--order", "any"), "Give one or the other"),
    (("what-if", "--dead", "one"), "is not a list of broker numbers"),
    (("--brokers", "1000000000"), "--brokers 1000000000 is more than 1000"),
    (("--from", "kafka", "--brokers", "1000000000"), "is more than 1000"),
    (("--brokers", "3", "--p99-ms", "inf"), "must be numbers"),
    (("--brokers", "3", "--mb-per-s", "inf"), "must be numbers"),
    # The cluster of the option was ignored, and the default one was asked.
    (
        ("--bootstrap", "elsewhere:9092", "topic", "orders"),
        "--bootstrap: give options after `topic`, not before it",
    ),
    (("--survive-writes", "1", "what-if", "--dead", "1"), "--survive-writes: give options after `what-if`"),
]


@pytest.mark.parametrize(("words", "expected"), BAD)
def test_bad_input(words: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, *words, code=1 if expected == "cannot be read" else 2)
    assert expected in text
    assert text.count("\n") == 1


def test_without_needs_it_asks_five_questions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = iter(["3", "many", "3", "1", "1", "yes", "yes"])
    asked: list[str] = []

    def prompt(text: str, default: str) -> str:
        asked.append(text)
        return next(replies)

    monkeypatch.setattr("typer.prompt", prompt)
    text = said(capsys)
    assert len(dict.fromkeys(asked)) == 5
    # One broker has to be left.
    assert text.count("Please answer with a number from 0 to 2.") == 2
    assert "Use quorum with 3 replicas, flushed" in text
    for answer in (
        "brokers 1, 2 and 3 are the controllers: their majority survives 1 failure.",
        "isr needs at least 2 replicas for that, and quorum 3.",
        "2 copies have to exist before a write is acknowledged: together with the answer before, isr needs 3",
        "Every write waits until the disks of all replicas that count have it",
        "it needs another leader while its leader is down.",
    ):
        assert answer in text


def test_the_default_answers_fit_a_single_broker(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One dead broker of one was the default, and was refused after the fifth answer."""
    replies = iter(["1"])
    monkeypatch.setattr("typer.prompt", lambda text, default: next(replies, default))
    assert "Use isr with 1 replica" in said(capsys)


def test_answers_that_contradict_each_other_are_explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = iter(["3", "2", "2", "no", "no"])
    monkeypatch.setattr("typer.prompt", lambda text, default: next(replies))
    text = said(capsys, code=1)
    assert "so many failures can take the majority of the controllers" in text
    assert "so many lost disks can take the metadata of the cluster" in text
    assert "Producers may use the partitions of another primary" in text
    assert "What could be given up" in text


def test_rates_change_the_years(capsys: pytest.CaptureFixture[str]) -> None:
    usual = as_json(capsys, "--brokers", "3", "--survive-writes", "1")
    worse = as_json(capsys, "--brokers", "3", "--survive-writes", "1", "--rate", "broker_failures=300")
    key = "minutes_without_writes_per_year"
    assert worse["years"][0][key] > usual["years"][0][key]


def test_producers_that_move_are_told_from_one_partition(capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise "1 dead broker for writes" and "writes stop if broker 1 is down" contradict each other."""
    needs = ("--brokers", "2", "--survive-writes", "1")
    text = said(capsys, *needs, "--order", "any")
    assert "The only replica has a record before it is acknowledged. Tolerated: 1 dead broker" in text
    assert "one partition, the one with its primary on broker 1." in text
    assert "one partition" not in said(capsys, *needs, "--separate-controllers")


def test_what_acks_1_means_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--from", "kafka", "--replicas", "3", "--min-isr", "2", "--acks", "1")
    assert text.startswith("kafka: this is isr with 3 replicas, min.insync.replicas=2, acks=1")
    assert "At least 1 of 3 replicas has a record before it is acknowledged." in text
    assert "1 for reads, 0 lost disks." in text


@pytest.mark.slow
def test_racks(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "--brokers", "3", "--racks", "3", "--survive-racks", "1", "--survive-data", "1")
    assert found["answer"]["racks"]["tolerated"] == 1
    assert found["answer"]["racks"]["writes_stop_when"] == ["Any 2 of the racks 1, 2 and 3 lose power."]
    text = said(capsys, "--brokers", "4", "--racks", "2", "--survive-racks", "1", code=1)
    assert "no write is acknowledged when one of the racks 1 and 2 loses power (1 rack asked for)" in text
    assert "- --racks 3 instead of 2" in text


class TestCosts:
    NEEDS = ("--brokers", "3", "--survive-writes", "1", "--survive-data", "1")

    def test_without_a_calibration_it_says_how_to_get_one(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert as_json(capsys, *self.NEEDS)["costs"] is None
        assert "`tidelog plan calibrate` measures this machine" in said(capsys, *self.NEEDS)

    def test_with_one_they_are_predicted(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        slower = CALIBRATED._replace(round_trip_ms=(0.6,) * 101)
        costing.write(costing.Calibration("2026-01-02T03:04:05+00:00", "0.1", 2, (CALIBRATED, slower)))
        costs = as_json(capsys, *self.NEEDS)["costs"]
        assert costs["rows"][0]["p50_ms"] == {"middle": 0.75, "low": 0.7, "high": 0.8}
        text = said(capsys, *self.NEEDS, "--to", str(tmp_path / "plan.md"))
        assert "Predicted from the calibration of 2026-01-02 03:04" in text
        assert "0.75 (0.70–0.80)" in text
        assert "0.75 (0.70–0.80)" in (tmp_path / "plan.md").read_text(encoding="utf-8")

    def test_wishes(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = said(capsys, *self.NEEDS, "--p99-ms", "1", code=1)
        assert "need a calibration: `tidelog plan calibrate`" in text
        costing.write(costing.Calibration("2026-01-02T03:04:05+00:00", "0.1", 2, (CALIBRATED,)))
        found = as_json(capsys, *self.NEEDS, "--p99-ms", "1")
        assert [each["settings"] for each in found["candidates"]] == [
            "isr with 3 replicas, min.insync.replicas=2"
        ]
        assert "- --p99-ms 0.70 instead of 0.1" in said(capsys, *self.NEEDS, "--p99-ms", "0.1", code=1)

    def test_a_damaged_file_is_no_calibration(self, capsys: pytest.CaptureFixture[str]) -> None:
        costing.path().parent.mkdir(parents=True)
        costing.path().write_text('{"format": 1, "rounds": [{}]}')
        assert as_json(capsys, *self.NEEDS)["costs"] is None


def test_plots_of_a_proof_lie_beside_the_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {
        "fault": "1 of 3 brokers are dead",
        "target": "tidelog",
        "settings": "isr",
        "verdict": "kept",
        "acknowledged": 100,
        "lost": 0,
        "writes_stood_still_s": 0.4,
    }
    proof = Proof((row,), (("1 of 3 brokers are dead, isr", "<svg/>"),))
    monkeypatch.setattr("tidelog.cli.plan.commands.prove", lambda *_: proof)
    text = said(
        capsys, "--brokers", "3", "--survive-writes", "1", "--prove", "--to", str(tmp_path / "plan.md")
    )
    assert "plan-proof-1.svg" in text
    assert (tmp_path / "plan-proof-1.svg").read_text() == "<svg/>"
    report = (tmp_path / "plan.md").read_text(encoding="utf-8")
    assert "![1 of 3 brokers are dead, isr](plan-proof-1.svg)" in report
    assert "| 1 of 3 brokers are dead | tidelog | isr | kept | 100 | 0 | 0.4 |" in report


def test_a_broken_promise_ends_with_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.cli.plan.commands.prove", lambda *_: Proof(is_broken=True))
    text = said(capsys, "--brokers", "3", "--survive-writes", "1", "--prove", code=1)
    assert "The lab observed something else than the plan says" in text


@pytest.mark.parametrize("words", [("--order", "any"), ("--separate-controllers",)])
def test_an_option_that_is_given_is_not_asked_for_again(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, *words).startswith("Use ")


def test_acks_0_is_not_called_safe(capsys: pytest.CaptureFixture[str]) -> None:
    [row] = as_json(capsys, "--from", "kafka", "--replicas", "3", "--acks", "0")["years"]
    assert row["loss_probability_per_year"] == 1


def test_lost_disks_of_controllers_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--from", "kafka", "--replicas", "3", "--min-isr", "3")
    assert "1 lost disk." in text
    assert "- Any 2 of the brokers 1, 2 and 3, which are the controllers, lose their disks." in text


def test_settings_of_the_topic_precede_those_of_the_broker(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--set", "flush.messages=1", "--set", "log.flush.interval.messages=1000")
    found = as_json(capsys, "--from", "kafka", "--replicas", "3", *words)
    assert found["today"]["topic_settings"]["flush.messages"] == "1"


def test_what_kafka_does_not_promise_with_the_same_settings(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--from", "kafka", "--replicas", "3", "--min-isr", "2")
    assert "1 dead broker for writes, 1 for reads, 1 lost disk." in text
    assert "In Tidelog, reads go on with 2 dead brokers" in text
    assert "eligible.leader.replicas.version" in text
    [unreachable] = as_json(capsys, "--from", "kafka", "--replicas", "2", "--min-isr", "3")["notes"][1:2]
    assert "Kafka refuses every write" in unreachable


def test_settings_that_no_topic_can_have_are_not_in_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The command was refused by the cluster, beside the note that Tidelog would wait for all replicas."""
    found = as_json(capsys, "--from", "kafka", "--replicas", "3", "--min-isr", "5")
    assert "--set min.insync.replicas=3" in found["command"]
    assert found["today"]["topic_settings"]["min.insync.replicas"] == "3"
    assert any("the command has min.insync.replicas=3." in note for note in found["notes"])
    assert "In Tidelog, writes go on while no broker is dead." in found["notes"]
    words = ("--set", "brokerRole=SYNC_MASTER", "--set", "inSyncReplicas=3")
    assert "--set min.insync.replicas=2" in as_json(capsys, "--from", "rocketmq", *words)["command"]


class TestInKafka:
    """What the same settings do not tolerate there, on the same machines."""

    def test_readers_need_the_controllers(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = as_json(capsys, "--brokers", "3", "--survive-reads", "2", "--survive-writes", "1")["kafka"]
        assert found["differences"] == [
            "Kafka tolerates 1 dead broker for reads with these settings, and Tidelog 2."
        ]

    def test_another_leader_needs_another_replica(self, capsys: pytest.CaptureFixture[str]) -> None:
        """It was said of a single replica, too, that another leader is appointed and writes go on."""
        words = ("--brokers", "2", "--survive-writes", "1", "--order", "any")
        assert as_json(capsys, *words)["kafka"]["differences"] == []

    def test_a_failover_that_writes_do_not_survive(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Two machines are no majority: the controllers appoint nobody when one of them is down."""
        words = ("--brokers", "2", "--mode", "primary-backup", "--survive-reads", "1")
        found = as_json(capsys, *words)["kafka"]["differences"]
        assert (
            "Kafka has no fixed primary: the controllers appoint another replica when the leader fails."
            in found
        )
        assert not any("for writes" in note for note in found)
        assert found[-1] == "Kafka tolerates 0 dead brokers for reads with these settings, and Tidelog 1."
        apart = as_json(capsys, *words, "--separate-controllers")["kafka"]["differences"]
        assert "Kafka tolerates 1 dead broker for writes with these settings, and Tidelog 0." in apart


def test_probabilities_have_two_digits(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--brokers", "3", "--survive-writes", "1", "--survive-data", "1", "--power")
    assert "1 in 1.1 million" in text
    assert "1 in 760 million" in text  # 763 was said
