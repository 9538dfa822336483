"""Who reaches whom through which port, in a file that may be stale or damaged."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.lab.playground import links

ADDRESSES = {1: ("127.0.0.1", 9092), 2: ("127.0.0.1", 9093), 3: ("127.0.0.1", 9094)}


def ended() -> int:
    """The id of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_every_way_has_a_port_of_its_own(tmp_path: Path) -> None:
    made = links.make(ADDRESSES)
    assert {(one, other) for one, ways in made.ports.items() for other in ways} == {
        (one, other) for one in ADDRESSES for other in ADDRESSES if one != other
    }
    assert len({port for ways in made.ports.values() for port in ways.values()}) == 6
    links.write(tmp_path, made)
    assert links.read(tmp_path) == made


def test_no_link_takes_a_port_on_which_the_cluster_will_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = iter(range(9091, 9200))
    monkeypatch.setattr(links, "free_port", lambda: next(ports))
    made = links.make(ADDRESSES, reserved=[9096])
    given = sorted(port for ways in made.ports.values() for port in ways.values())
    assert given == [9091, 9095, 9097, 9098, 9099, 9100]


def test_a_broker_is_told_where_the_others_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "is_tidelog", lambda pid: pid == os.getpid())
    found = links.Links(os.getpid(), ADDRESSES, {1: {2: 7001, 3: 7002}})
    links.write(tmp_path, found)
    assert links.words_for(tmp_path, 1) == ["--set", "node.addresses=2@127.0.0.1:7001,3@127.0.0.1:7002"]
    assert links.words_for(tmp_path, 4) == []  # Nobody made links for it.


def test_links_without_a_relay_are_not_used(tmp_path: Path) -> None:
    links.write(tmp_path, links.make(ADDRESSES)._replace(keeper=ended()))
    assert links.in_force(tmp_path) is None
    assert links.words_for(tmp_path, 1) == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"keeper": 1}', '{"keeper": 1, "addresses": {}, "ports": []}']
)
def test_a_damaged_file_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / links.NAME).write_text(text)
    assert links.read(tmp_path) is None


def test_without_a_file_there_are_none(tmp_path: Path) -> None:
    assert links.in_force(tmp_path) is None
    links.remove(tmp_path)
