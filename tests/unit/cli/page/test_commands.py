"""The address that ``tidelog page`` prints, and the process of its playground."""

import sys
from pathlib import Path

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.local.broker_settings import LocalBroker
from tidelog.cli.page import commands
from tidelog.lab.playground.process import addresses_of


def test_the_token_is_where_browsers_do_not_send_it() -> None:
    assert commands._address(8080, "", demo=False) == "http://127.0.0.1:8080/"
    assert commands._address(8080, "abc", demo=False) == "http://127.0.0.1:8080/#token=abc"
    assert commands._address(8080, "abc", demo=True) == "http://127.0.0.1:8080/playground#token=abc"


@pytest.mark.parametrize("url", ["http://127.0.0.1:8081", "https://registry"])
def test_a_registry_is_an_address(url: str) -> None:
    assert commands._registry(url) == url
    with pytest.raises(CommandFailed, match="is expected"):
        commands._registry(url.partition("://")[2])


def test_no_registry_need_be_given() -> None:
    assert commands._registry(None) == commands._registry("") == ""


def test_the_playground_understands_the_brokers_that_it_is_given(tmp_path: Path) -> None:
    brokers = [LocalBroker(tmp_path / f"broker-{number}", number, 9091 + number) for number in (1, 2)]
    command = commands._playground_command(tmp_path / "x" / "..", brokers)
    assert command[:3] == [sys.executable, "-m", "tidelog.lab.playground.process"]
    given = dict(zip(command[3::2], command[4::2], strict=True))
    assert given["--dir"] == str(tmp_path.resolve())
    assert addresses_of(given["--brokers"]) == {1: ("127.0.0.1", 9092), 2: ("127.0.0.1", 9093)}
