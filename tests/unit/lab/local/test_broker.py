"""The process handling of ``tidelog.testing``, with a stand-in broker so that only the handling is tested."""

import contextlib
import socket
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.lab.local.broker import PORTS, free_port, is_ready, share_of_ports
from tidelog.testing import Broker, BrokerError

pytestmark = pytest.mark.slow

STANDIN = Path(__file__).with_name("standin.py")


class StandIn(Broker):
    exit_code = 0

    def command(self) -> list[str]:
        return [sys.executable, str(STANDIN), str(self.port), str(self.exit_code)]


class Silent(Broker):
    """Runs, says one line, and never listens."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", "import time; print('up, but deaf', flush=True); time.sleep(60)"]


class Doomed(Broker):
    def command(self) -> list[str]:
        return [sys.executable, "-c", "raise SystemExit('log.dirs is not writable')"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = StandIn(tmp_path)
    broker.start()
    yield broker
    broker.kill()


def test_start_returns_when_it_answers(broker: Broker) -> None:
    assert is_ready(broker.port)
    assert broker.bootstrap == f"127.0.0.1:{broker.port}"
    assert "listening" in broker.log_text()


def test_start_again_keeps_the_port(broker: Broker) -> None:
    port, first = broker.port, broker.pid
    broker.kill()
    assert not is_ready(port)
    broker.start()
    assert broker.port == port
    assert broker.pid != first
    assert is_ready(port)
    assert broker.log_text().count("listening") == 2


def test_launch_does_not_wait(tmp_path: Path) -> None:
    broker = Silent(tmp_path)
    broker.launch()
    assert broker.pid > 0
    broker.kill()


def test_stop_returns_the_exit_code(broker: Broker) -> None:
    assert broker.stop() == 0
    assert not is_ready(broker.port)


def test_a_paused_broker_is_silent_until_resumed(broker: Broker) -> None:
    broker.pause()
    assert not is_ready(broker.port, timeout_s=0.1)
    broker.resume()
    assert is_ready(broker.port)


def test_a_paused_broker_can_be_stopped(broker: Broker) -> None:
    broker.pause()
    assert broker.stop() == 0


def test_an_unclean_end_is_reported(tmp_path: Path) -> None:
    broker = StandIn(tmp_path)
    broker.exit_code = 3
    broker.start()
    with pytest.raises(BrokerError, match="stopped with exit code 3"):
        broker.close()


def test_a_death_nobody_asked_for_is_reported(broker: Broker) -> None:
    assert broker._process is not None
    broker._process.kill()
    broker._process.wait()
    with pytest.raises(BrokerError, match="ended by itself with exit code -9"):
        broker.close()


def test_a_failed_start_shows_the_log(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=r"exit code 1 before it answered(.|\n)*log\.dirs is not writable"):
        Doomed(tmp_path).start()


def test_a_start_that_never_answers_leaves_no_process(tmp_path: Path) -> None:
    broker = Silent(tmp_path)
    with pytest.raises(BrokerError, match=r"did not answer in time(.|\n)*up, but deaf"):
        broker.start(timeout_s=1)
    with pytest.raises(RuntimeError, match="is not running"):
        _ = broker.pid


def test_settings_are_written_under_kafkas_names(tmp_path: Path) -> None:
    broker = Broker(tmp_path, {"num.partitions": 3, "log.cleanup.policy": ["compact", "delete"], "x": True})
    broker.write_config()
    written = tomllib.loads((tmp_path / "broker.toml").read_text())
    assert written["num.partitions"] == 3
    assert written["log.cleanup.policy"] == ["compact", "delete"]
    assert written["x"] is True
    assert written["listeners"] == f"PLAINTEXT://127.0.0.1:{broker.port}"
    assert written["log.dirs"] == str(tmp_path / "data")


def test_a_port_in_use_is_not_free() -> None:
    following = free_port() + PORTS.step
    with socket.socket() as listener:
        with contextlib.suppress(OSError):  # somebody uses it already: as well
            listener.bind(("127.0.0.1", following))
            listener.listen()
        assert free_port() != following


def test_no_port_is_given_out_twice_in_a_row_of_tests() -> None:
    given = [free_port() for _ in range(100)]
    assert len(set(given)) == len(given)


def test_workers_of_one_run_share_the_ports() -> None:
    shares = [set(share_of_ports(f"gw{number}", "3")) for number in range(3)]
    assert len(set.union(*shares)) == sum(len(share) for share in shares) == len(PORTS)
    assert share_of_ports("", "") == PORTS


@pytest.mark.parametrize("number", [3, 4, 5, 40])
def test_a_worker_in_place_of_a_crashed_one_has_ports(number: int) -> None:
    assert share_of_ports(f"gw{number}", "3") in [share_of_ports(f"gw{each}", "3") for each in range(3)]


def test_another_server_on_the_port_does_not_count_as_a_broker() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert not is_ready(listener.getsockname()[1], timeout_s=0.1)
