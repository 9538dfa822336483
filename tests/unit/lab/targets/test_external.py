"""A cluster that already runs: commands for faults, and what is offered."""

from pathlib import Path

import pytest

from tidelog.lab.experiment.model import ClusterSpec
from tidelog.lab.faults.errors import FaultError
from tidelog.lab.faults.parties import Parties
from tidelog.lab.targets import external
from tidelog.lab.targets.base import TargetError
from tidelog.lab.targets.external import ExternalTarget

SAID = {external.SESSION: 9000.0, external.LAG: 30_000.0}
BROKERS = {1: ("h", 1), 2: ("h", 2), 3: ("h", 3)}


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "_find_brokers", lambda bootstrap: BROKERS)
    monkeypatch.setattr(external, "responds", lambda host, port, timeout_s: False)
    monkeypatch.setattr(external, "_milliseconds", lambda bootstrap, broker, *names: SAID)


def noting(file: Path, word: str) -> str:
    """A command that writes down what it was asked."""
    return f"sh -c 'echo {word} {{broker}} >> {file}'"


def test_only_what_has_commands_is_offered() -> None:
    assert ExternalTarget("h:1", {}).faults == frozenset()
    both = {"kill": "a {broker}", "start": "b {broker}", "freeze": None, "thaw": None}
    assert ExternalTarget("h:1", both).faults == {"kill"}


def test_bounds_follow_from_what_the_cluster_says() -> None:
    target = ExternalTarget("h:1", {})
    assert (target.session_s, target.lag_s) == (9.0, 30.0)
    assert ExternalTarget("h:1", {}, session_s=6.0).session_s == 6.0


def test_a_command_without_its_counterpart_is_refused() -> None:
    with pytest.raises(TargetError, match="--kill needs --start"):
        ExternalTarget("h:1", {"kill": "a {broker}"})


def test_a_command_that_does_not_name_the_broker_is_refused() -> None:
    with pytest.raises(TargetError, match=r"put \{broker\} where its number goes"):
        ExternalTarget("h:1", {"kill": "a", "start": "b {broker}"})


def test_commands_get_the_number_of_the_broker(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    target = ExternalTarget("h:1", {"kill": noting(notes, "kill"), "start": noting(notes, "start")})
    fault = target.inject("kill", Parties((2, 3)), {})
    assert notes.read_text().split("\n") == ["kill 2", "kill 3", ""]
    assert fault.name == "kill of brokers 2 and 3"
    fault.heal()
    assert notes.read_text().split("\n") == ["kill 2", "kill 3", "start 2", "start 3", ""]
    target.stop()
    assert notes.read_text().count("start") == 2


def test_what_is_still_down_is_started_at_the_end(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    commands = {"freeze": noting(notes, "freeze"), "thaw": noting(notes, "thaw")}
    target = ExternalTarget("h:1", commands)
    target.inject("freeze", Parties((2,)), {})
    target.stop()
    assert notes.read_text().split("\n") == ["freeze 2", "thaw 2", ""]


def test_a_command_that_fails_is_one_sentence() -> None:
    target = ExternalTarget("h:1", {"kill": "sh -c 'echo no {broker} >&2; exit 3'", "start": "x {broker}"})
    with pytest.raises(FaultError, match="ended with code 3: no 2"):
        target.inject("kill", Parties((2,)), {})


def test_too_few_brokers_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="needs 5 brokers, and the cluster at h:1 has 3"):
        ExternalTarget("h:1", {}).start(tmp_path, ClusterSpec(brokers=5), [])


def test_an_address_that_is_none_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(TargetError, match="not an address; use HOST:PORT"):
        ExternalTarget("somewhere", {})


def test_a_command_that_does_nothing_is_not_taken_for_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a round in which nothing was broken would say that everything was kept."""
    monkeypatch.setattr(external, "SILENT_S", 0.1)
    monkeypatch.setattr(external, "responds", lambda host, port, timeout_s: port == 2)
    target = ExternalTarget("h:1", {"kill": "true {broker}", "start": "true {broker}"})
    target.inject("kill", Parties((1, 3)), {})
    with pytest.raises(FaultError, match=r"Broker 2 still responds 0.1 s after the command 'true 2'"):
        target.inject("kill", Parties((2,)), {})
