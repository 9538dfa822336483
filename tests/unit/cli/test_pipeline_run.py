"""What the pipeline commands share, as far as it needs no Spark."""

import os
import signal

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.pipeline_run import pairs, spark_session, stop_on_signals


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
