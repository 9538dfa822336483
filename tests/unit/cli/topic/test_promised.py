"""What a topic promises before and after a change."""

from typing import Any

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.topic.promised import agree, terms_of
from tidelog.planner.comparing import losses_of, resolved
from tidelog.planner.promises import Terms
from tidelog.planner.terms import terms_of_values

ISR = Terms("isr", 3, min_in_sync=2)
QUORUM = Terms("quorum", 3, synced=True)


def described(mode: str, **own: str) -> dict[str, Any]:
    """As clients see a topic of this mode; ``own``: what the topic itself sets."""
    defaults = {
        "replication.mode": "isr", "min.insync.replicas": "2", "flush.messages": "9223372036854775807",
        "unclean.leader.election.enable": "false",
    } | ({"flush.messages": "1"} if mode == "quorum" else {})  # fmt: skip
    values = {name: {"name": name, "value": value, "set_by": "default"} for name, value in defaults.items()}
    chosen = {name.replace("_", "."): value for name, value in own.items()} | {"replication.mode": mode}
    values |= {name: {"name": name, "value": value, "set_by": "topic"} for name, value in chosen.items()}
    return {"settings": list(values.values()), "partitions": [{"replicas": [1, 2, 3]}]}


def after(found: dict[str, Any], settings: dict[str, str], *unset: str) -> Terms:
    return terms_of_values(resolved(found["settings"], settings, set(unset)), 3)


def test_as_it_is() -> None:
    assert terms_of(described("quorum")) == QUORUM
    assert terms_of(described("isr", min_insync_replicas="1")).min_in_sync == 1


def test_from_quorum_to_isr_nothing_is_synced_any_more() -> None:
    new = after(described("quorum"), {"replication.mode": "isr"})
    assert new == ISR
    assert [each for each in losses_of(QUORUM, new) if "synced to disk" in each]
    kept = after(described("quorum"), {"replication.mode": "isr", "flush.messages": "1"})
    assert losses_of(QUORUM, kept) == []


def test_a_setting_that_the_change_removes_has_its_default() -> None:
    found = described("isr", min_insync_replicas="1")
    assert after(found, {"replication.mode": "quorum"}, "min.insync.replicas") == QUORUM
    assert after(found, {}, "min.insync.replicas") == ISR


def test_to_quorum_is_no_loss() -> None:
    assert losses_of(ISR, QUORUM) == []


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (ISR._replace(replicas=2), "failures tolerated for writes"),
        (ISR._replace(min_in_sync=1), "lost disks"),
        (ISR._replace(unclean=True), "unclean elections"),
        (Terms("primary-backup", 3, min_in_sync=2, degrades=True), "fewer copies"),
    ],
)
def test_weaker_promises(new: Terms, words: str) -> None:
    assert any(words in each for each in losses_of(ISR, new))


def test_a_weaker_promise_needs_consent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(CommandFailed, match=r"t would promise less: .*pass --yes"):
        agree("t", ISR, ISR._replace(min_in_sync=1), yes=False)
    agree("t", ISR, ISR._replace(min_in_sync=1), yes=True)
    agree("t", ISR, QUORUM, yes=False)
    assert "t before: isr, 3 replicas, 2 copies" in capsys.readouterr().out


def test_nothing_is_said_where_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    agree("t", ISR, ISR, yes=False)
    assert capsys.readouterr().out == ""
