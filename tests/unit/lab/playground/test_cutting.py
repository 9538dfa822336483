"""Cuts between brokers by the relay of a directory. The brokers are echoes, which have the right names."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tidelog.lab.faults.errors import FaultError
from tidelog.lab.local.broker import free_port
from tidelog.lab.network.shape import Shape
from tidelog.lab.network.wiring import directions_between
from tidelog.lab.playground import links
from tidelog.lab.playground.brokers import NO_CUT, LocalBrokers
from tidelog.lab.playground.cutting import LinkWiring
from tidelog.lab.playground.faults import CUT, KILLED, UP, Faults

pytestmark = pytest.mark.slow

ECHO = """
import socket, sys, threading
def echo(connection):
    while data := connection.recv(4096):
        connection.sendall(data)
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    threading.Thread(target=echo, args=(server.accept()[0],), daemon=True).start()
"""
SHORT_S = 0.3  # a cut connection is silent for longer


class Place(NamedTuple):
    """A directory with three brokers and a relay between them."""

    directory: Path
    links: links.Links
    processes: dict[object, "subprocess.Popen[bytes]"]

    def start_broker(self, number: int, *words: str) -> None:
        home = self.directory / f"broker-{number}"
        home.mkdir(exist_ok=True)
        (home / "broker.toml").write_text("")
        port = str(self.links.addresses[number][1])
        process = subprocess.Popen([sys.executable, "-c", ECHO, port, "tidelog", *words])
        (home / "broker.pid").write_text(f"{process.pid}\n")
        self.processes[number] = process
        until(lambda: answers(int(port)))

    def start_relay(self) -> None:
        command = [sys.executable, "-m", "tidelog.lab.playground.relay", "--dir", str(self.directory)]
        self.processes["relay"] = subprocess.Popen(command)
        until(lambda: all(answers(port) for ways in self.links.ports.values() for port in ways.values()))

    def end(self, who: object) -> None:
        self.processes[who].kill()
        self.processes[who].wait()

    def reaches(self, one: int, other: int) -> bool:
        return answers(self.links.ports[one][other])


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), SHORT_S) as connection:
        connection.sendall(b"?")
        return connection.recv(1) == b"?"
    return False


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = links.make({number: ("127.0.0.1", free_port()) for number in (1, 2, 3)})
    links.write(tmp_path, made)
    found = Place(tmp_path, made, {})
    for number in made.addresses:
        found.start_broker(number, f"{links.SETTING}={made.setting(number)}")
    found.start_relay()
    yield found
    for who in list(found.processes):
        found.end(who)


def test_one_broker_is_cut_off_from_the_others_and_from_nobody_else(place: Place) -> None:
    faults = Faults(LocalBrokers(place.directory))
    assert faults.cut(2) == "Broker 2 was cut off from the other brokers; clients still reach it."
    assert faults.states() == {1: UP, 2: CUT, 3: UP}
    assert not any(place.reaches(*way) for way in ((1, 2), (2, 1), (3, 2), (2, 3)))
    assert place.reaches(1, 3)
    assert place.reaches(3, 1)
    assert answers(place.links.addresses[2][1])  # as clients connect
    with pytest.raises(FaultError, match="cut off: heal it first"):
        faults.freeze(2)
    assert faults.heal(2) == "Broker 2 reaches the other brokers again."
    assert all(place.reaches(*way) for way in ((1, 2), (2, 1), (3, 2), (2, 3)))
    (band,) = faults.shown()
    assert (band.broker, band.what) == (2, CUT)
    assert band.end_ms >= band.begin_ms
    with pytest.raises(FaultError, match="not cut off"):
        faults.heal(2)


def test_two_cuts_are_healed_one_by_one(place: Place) -> None:
    faults = Faults(LocalBrokers(place.directory))
    faults.cut(1)
    faults.cut(2)
    faults.heal(1)
    until(lambda: place.reaches(1, 3))
    assert not place.reaches(1, 2)
    faults.heal_all()
    until(lambda: place.reaches(1, 2))


def test_a_cut_ends_with_whoever_made_it(place: Place) -> None:
    """Also if it is killed: the kernel ends its connections then, too."""
    script = (
        "import sys, pathlib; from tidelog.lab.playground.brokers import LocalBrokers; "
        "from tidelog.lab.playground.faults import Faults; "
        "faults = Faults(LocalBrokers(pathlib.Path(sys.argv[1]))); faults.cut(2); "
        "print('cut', flush=True); input()"
    )
    cutter = subprocess.Popen(
        [sys.executable, "-c", script, str(place.directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert cutter.stdout is not None
    assert cutter.stdout.readline() == b"cut\n"
    assert not place.reaches(1, 2)
    cutter.kill()
    cutter.communicate()
    until(lambda: place.reaches(1, 2))


def test_a_relay_that_was_started_again_has_no_cuts_and_nobody_says_so(place: Place) -> None:
    faults = Faults(LocalBrokers(place.directory))
    faults.cut(2)
    place.end("relay")
    until(lambda: faults.states() == {1: UP, 2: UP, 3: UP})
    assert faults.shown()[0].end_ms >= 0
    place.start_relay()
    assert place.reaches(1, 2)
    faults.cut(2)  # over a new connection
    assert not place.reaches(1, 2)


def test_without_its_relay_a_cut_is_refused(place: Place) -> None:
    place.end("relay")
    wiring = LinkWiring(place.directory)
    with pytest.raises(FaultError, match="The relay between the brokers does not answer"):
        wiring.add(Shape(cut=True), directions_between((1,), (2, 3)))
    assert not wiring.is_whole()


def test_a_killed_broker_is_not_cut_off_when_it_is_back(place: Place) -> None:
    faults = Faults(LocalBrokers(place.directory))
    faults.cut(2)
    faults.kill(2)
    assert faults.states()[2] == KILLED
    place.processes[2].wait(10)
    place.start_broker(2, f"{links.SETTING}={place.links.setting(2)}")
    until(lambda: place.reaches(1, 2) and place.reaches(2, 1))
    assert faults.states()[2] == UP


def test_a_broker_that_ended_by_itself_is_not_cut_off_any_more(place: Place) -> None:
    faults = Faults(LocalBrokers(place.directory))
    faults.cut(2)
    place.end(2)
    until(lambda: faults.states()[2] != CUT)
    place.start_broker(2, f"{links.SETTING}={place.links.setting(2)}")
    until(lambda: place.reaches(1, 2))


def test_a_broker_that_bypasses_the_relay_is_named(place: Place) -> None:
    brokers = LocalBrokers(place.directory)
    assert brokers.why_no_cut() == ""
    place.end(3)
    place.start_broker(3)
    assert brokers.why_no_cut() == (
        "Brokers cannot be cut off before broker 3 is restarted: it bypasses the relay."
    )
    with pytest.raises(FaultError, match="before broker 3 is restarted"):
        Faults(brokers).cut(1)
    assert place.reaches(1, 2)


def test_without_links_it_is_said_where_brokers_can_be_cut_off(place: Place) -> None:
    links.remove(place.directory)
    brokers = LocalBrokers(place.directory)
    assert brokers.why_no_cut() == NO_CUT
    with pytest.raises(FaultError, match="tidelog up --demo"):
        Faults(brokers).cut(1)


def test_nonsense_changes_nothing(place: Place) -> None:
    with links.connect(place.directory) as connection:
        for line in (b"{\n", b"[]\n", b'{"from": "1", "to": "2", "shape": {"x": 1}}\n'):
            connection.sendall(line)
            assert b"no command" in connection.recv(4096)
        connection.sendall(b"x" * 10_000)
        assert connection.recv(1) == b""  # It ends who never ends a line.
    assert place.reaches(1, 2)


def test_the_relay_ends_with_the_last_broker_when_nobody_keeps_it(tmp_path: Path) -> None:
    """Its parent is another process than the one that the links name, as after the end of `tidelog up`."""
    made = links.make({1: ("127.0.0.1", free_port())})._replace(keeper=1 << 30)
    links.write(tmp_path, made)
    found = Place(tmp_path, made, {})
    found.start_broker(1)
    found.start_relay()
    try:
        until(lambda: _is_in_force(tmp_path))
        found.end(1)
        assert found.processes["relay"].wait(20) == 0
        assert links.read(tmp_path) is None
    finally:
        found.end("relay")
        found.end(1)


def _is_in_force(directory: Path) -> bool:
    return links.in_force(directory) is not None


def test_a_directory_with_a_long_name(tmp_path: Path) -> None:
    """The system allows about 100 bytes for the name of a socket."""
    directory = tmp_path / ("long" * 40)
    directory.mkdir()
    found = Place(directory, links.make({}), {})
    links.write(directory, found.links)
    found.start_relay()
    try:
        until(lambda: _answers_at(directory))
    finally:
        found.end("relay")


def _answers_at(directory: Path) -> bool:
    try:
        links.connect(directory).close()
    except OSError:
        return False
    return True
