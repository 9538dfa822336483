"""The relay of `tidelog up --demo` is started before the brokers, again when it has ended, and stopped."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.local.broker_settings import LocalBroker
from tidelog.cli.local.relay import RelayKeeper
from tidelog.lab.local.broker import free_port
from tidelog.lab.playground import links

pytestmark = pytest.mark.slow


class Said:
    def __init__(self) -> None:
        self.sentences: list[str] = []

    def __call__(self, sentence: str) -> None:
        self.sentences.append(sentence)


@pytest.fixture
def brokers(tmp_path: Path) -> list[LocalBroker]:
    return [LocalBroker(tmp_path / f"broker-{number}", number, free_port()) for number in (1, 2)]


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def keeper(tmp_path: Path, said: Said) -> Iterator[RelayKeeper]:
    keeper = RelayKeeper(tmp_path, said)
    yield keeper
    keeper.stop()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def pid_of(keeper: RelayKeeper) -> int:
    assert keeper._process is not None
    return keeper._process.pid


def test_it_runs_when_start_returns_and_is_gone_after_stop(
    tmp_path: Path, brokers: list[LocalBroker], keeper: RelayKeeper
) -> None:
    keeper.start(brokers, {})
    links.connect(tmp_path).close()
    found = links.read(tmp_path)
    assert found is not None
    assert found.addresses == {each.broker_id: (each.host, each.port) for each in brokers}
    pid = pid_of(keeper)
    keeper.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not list(tmp_path.glob("links.*"))


def test_one_that_is_killed_is_started_again_at_the_same_ports(
    tmp_path: Path, brokers: list[LocalBroker], keeper: RelayKeeper, said: Said
) -> None:
    keeper.start(brokers, {})
    before, pid = links.read(tmp_path), pid_of(keeper)
    keeper.watch()
    assert pid_of(keeper) == pid
    os.kill(pid, signal.SIGKILL)

    def is_new() -> bool:
        keeper.watch()
        return pid_of(keeper) != pid

    until(is_new)
    assert said.sentences == ["the relay between the brokers has ended and is started again"]
    assert links.read(tmp_path) == before
    until(keeper._responds)


@pytest.mark.parametrize("is_given", [True, False])
def test_addresses_that_the_user_has_set_stay(
    tmp_path: Path, brokers: list[LocalBroker], keeper: RelayKeeper, said: Said, is_given: bool
) -> None:
    given = {} if not is_given else {links.SETTING: "2@127.0.0.1:7002"}
    if not is_given:
        brokers[0].directory.mkdir()
        brokers[0].config_path.write_text(f'"{links.SETTING}" = "2@127.0.0.1:7002"\n')
    keeper.start(brokers, given)
    keeper.watch()
    assert keeper._process is None
    assert links.read(tmp_path) is None
    assert "cannot be cut off" in said.sentences[0]


def test_brokers_do_not_start_without_it(
    tmp_path: Path, brokers: list[LocalBroker], keeper: RelayKeeper
) -> None:
    (tmp_path / links.SOCKET).mkdir()  # It cannot put its socket there.
    with pytest.raises(CommandFailed, match=r"did not start; see .*relay.log"):
        keeper.start(brokers, {})
    (tmp_path / links.SOCKET).rmdir()
