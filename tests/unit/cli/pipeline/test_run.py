"""What the pipeline commands share, as far as it needs no Spark."""

import os
import signal

import pytest

from tidelog.cli import main
from tidelog.cli.failure import CommandFailed
from tidelog.cli.pipeline.run import pairs, spark_session, stop_on_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_to_stop_and_no_more(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_on_signals() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        assert stop.wait(5)
    assert signal.getsignal(number) is before


def test_words_become_options() -> None:
    assert pairs(["a=1", "b.c=x=y"], "--conf") == {"a": "1", "b.c": "x=y"}
    with pytest.raises(CommandFailed, match="--conf a is not of the form KEY=VALUE"):
        pairs(["a"], "--conf")


def test_one_spark_at_a_time() -> None:
    with pytest.raises(CommandFailed, match="exclude each other"), spark_session("x", "local", "sc://a", []):
        pass


@pytest.mark.parametrize("words", [["archive", "x", "--to", "y"], ["restore", "x"], ["audit", "x"]])
def test_without_brokers_spark_is_not_started(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", *words, "--bootstrap", "127.0.0.1:1"]) == 1
    assert "start one with `tidelog up`" in capsys.readouterr().err
