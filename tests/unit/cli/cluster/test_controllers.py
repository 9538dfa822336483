"""Whether controllers decide, why not, and what to type next."""

from pathlib import Path

import pytest

from tidelog.cli.cluster.controllers import Controllers, require_active, start, what_next, without_controllers
from tidelog.cli.failure import CommandFailed
from tidelog.cli.reach import Address

VOTERS = {number: Address("127.0.0.1", 9091 + number) for number in range(1, 4)}
UP = Controllers(VOTERS, frozenset(), decide=True)
TWO_DOWN = Controllers(VOTERS, frozenset({1, 2}), decide=False)


@pytest.fixture
def started_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers 1 and 2 of a cluster of `tidelog up`."""
    monkeypatch.chdir(tmp_path)
    for broker in (1, 2):
        path = tmp_path / ".tidelog" / f"broker-{broker}" / "broker.toml"
        path.parent.mkdir(parents=True)
        path.write_text(f'"node.id" = {broker}\n"listeners" = "PLAINTEXT://{VOTERS[broker]}"\n')


def test_as_many_as_are_missing_are_started() -> None:
    voters = {number: Address("127.0.0.1", 9091 + number) for number in range(1, 6)}
    gone = Controllers(voters, frozenset({1, 2, 3, 4}), decide=False)
    assert "Start 2 of them:" in without_controllers(gone)


@pytest.mark.usefixtures("started_here")
def test_the_next_command_can_be_typed_where_the_files_are_here() -> None:
    assert without_controllers(TWO_DOWN).endswith("Start one of them: `tidelog broker start 1`.")
    assert start({2, 1}, VOTERS) == "`tidelog broker start 1`, `tidelog broker start 2`"
    assert start({2, 3}, VOTERS) == "`tidelog broker --config DIR/broker-2/broker.toml`"


@pytest.mark.usefixtures("started_here")
def test_brokers_of_another_cluster_are_not_named() -> None:
    elsewhere = {1: Address("127.0.0.1", 19092)}
    assert start({1}, elsewhere) == "`tidelog broker --config DIR/broker-1/broker.toml`"


def test_what_runs_is_not_started() -> None:
    frozen = without_controllers(TWO_DOWN._replace(silent=frozenset({1, 2})))
    assert frozen.endswith(
        "They accept connections, so they are starting, frozen or overloaded; see broker.log."
    )
    one = without_controllers(TWO_DOWN._replace(silent=frozenset({1})))
    assert one.endswith("Start 2: `tidelog broker --config DIR/broker-2/broker.toml`.")
    alone = Controllers({1: VOTERS[1]}, frozenset({1}), decide=False, silent=frozenset({1}))
    assert without_controllers(alone).endswith(
        "It accepts connections, so it is starting, frozen or overloaded; see broker.log."
    )


def test_enough_are_up_and_cannot_write() -> None:
    one = UP._replace(decide=False, unwritable=frozenset({2}))
    assert without_controllers(one) == (
        "none of the controllers 1, 2 and 3 is active, though enough are up, because 2 cannot write to its "
        "disk. Free space or replace the disk, then restart the broker."
    )
    several = without_controllers(one._replace(unwritable=frozenset({1, 2})))
    assert "because 1 and 2 cannot write to their disks." in several
    assert several.endswith("then restart the brokers.")


def test_enough_are_up_and_none_is_active() -> None:
    said = without_controllers(UP._replace(decide=False))
    assert said.startswith("none of the controllers 1, 2 and 3 is active, though enough are up: they are")
    alone = Controllers({1: VOTERS[1]}, frozenset(), decide=False)
    assert without_controllers(alone).startswith("the only controller, 1, is up and not active: ")


def test_a_plan_does_not_ask_for_what_would_be_refused() -> None:
    assert what_next(UP, "elect") == "Nothing was changed; pass --yes to elect."
    said = what_next(TWO_DOWN, "elect")
    assert said.startswith(
        "Nothing was changed, and nothing can be now: controllers 1 and 2 of 1, 2 and 3 do"
    )
    assert "--yes" not in said


def test_a_change_is_refused_at_once() -> None:
    require_active(UP)
    with pytest.raises(CommandFailed, match="Nothing can be changed now: controllers 1 and 2"):
        require_active(TWO_DOWN)
