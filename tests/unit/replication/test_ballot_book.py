"""Ballots of many partitions in one file: saved together, found again, never half forgotten."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, cast
from uuid import UUID
from zlib import crc32

import msgspec
import pytest

from tidelog.errors import StorageError
from tidelog.replication import ballot_book
from tidelog.replication.ballot_book import BallotBook
from tidelog.replication.votes import Ballot
from tidelog.services import Services
from tidelog.sim.disk import SimulatedDisk

TOPIC = UUID(int=7)


class FakeServices:
    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.writes = 0

    def perturb(self, name: str) -> bool:
        return False

    def soon(self, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def offload(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        def run() -> None:
            self.writes += 1
            try:
                result: Any = work()
            except OSError as error:
                result = error
            done(result)

        self.due.append(run)

    def run(self) -> None:
        while self.due:
            self.due.pop(0)()


def disk() -> SimulatedDisk:
    made = SimulatedDisk()
    made.make_directory("data")
    return made


def opened(on: SimulatedDisk, *, killed: bool = False) -> tuple[BallotBook, FakeServices]:
    """After a power failure, or a kill."""
    services = FakeServices()
    return BallotBook(on, "data", cast(Services, services), written_survives=killed), services


def save(book: BallotBook, services: FakeServices, ballots: dict[int, Ballot]) -> list[object]:
    told: list[object] = []
    for index, ballot in ballots.items():
        book.save((TOPIC, index), ballot, told.append)
    services.run()
    return told


def test_what_was_saved_is_found_again() -> None:
    on = disk()
    book, services = opened(on)
    assert save(book, services, {0: Ballot(3, 1), 1: Ballot(5, -1)}) == [None, None]
    assert save(book, services, {0: Ballot(4, 2)}) == [None]
    again, _ = opened(on)
    assert again.of((TOPIC, 0)) == Ballot(4, 2)
    assert again.of((TOPIC, 1)) == Ballot(5, -1)
    assert again.of((TOPIC, 2)) is None


def test_votes_of_many_partitions_share_one_write() -> None:
    book, services = opened(disk())
    save(book, services, {index: Ballot(1, 1) for index in range(500)})
    assert services.writes == 1


def test_nobody_is_told_before_the_disk_has_it() -> None:
    on = disk()
    book, services = opened(on)
    told: list[object] = []
    book.save((TOPIC, 0), Ballot(1, 1), told.append)
    services.due.pop(0)()
    assert told == []
    services.run()
    assert told == [None]


def test_a_torn_write_takes_nothing_else_along() -> None:
    on = disk()
    book, services = opened(on)
    save(book, services, {0: Ballot(1, 1)})
    file = on.open("data/ballots")
    file.write_at(file.size(), b'0badc0de [2,"')
    again, services = opened(on)
    assert again.of((TOPIC, 0)) == Ballot(1, 1)
    save(again, services, {0: Ballot(2, 3)})
    assert opened(on)[0].of((TOPIC, 0)) == Ballot(2, 3)


def test_a_kill_leaves_the_beginning_of_a_write() -> None:
    on = disk()
    book, services = opened(on)
    save(book, services, {0: Ballot(1, 1)})
    kept = on.open("data/ballots").size()
    save(book, services, {0: Ballot(2, 3), 1: Ballot(2, 3)})
    whole = on.open("data/ballots").size()
    for size in range(kept, whole):
        killed = deepcopy(on)
        killed.open("data/ballots").truncate(size)
        assert opened(killed, killed=True)[0].of((TOPIC, 0)) in (Ballot(1, 1), Ballot(2, 3))


def test_a_kill_damages_nothing_that_was_written() -> None:
    """The last line, too: whoever was promised that vote counts on it."""
    on = disk()
    book, services = opened(on)
    save(book, services, {0: Ballot(1, 1)})
    start = on.open("data/ballots").size()
    save(book, services, {0: Ballot(2, 3)})
    for position in range(start, on.open("data/ballots").size()):
        for bit in range(8):
            flipped = deepcopy(on)
            flipped.flip("data/ballots", position, bit)
            with pytest.raises(StorageError, match="is damaged"):
                opened(flipped, killed=True)
            assert opened(flipped)[0].of((TOPIC, 0)) == Ballot(1, 1)  # A power failure may tear it.


def test_the_way_out_of_damage_is_named() -> None:
    on = disk()
    book, services = opened(on)
    for epoch in range(1, 5):
        save(book, services, {0: Ballot(epoch, 1)})
    on.flip("data/ballots", 3, 1)
    with pytest.raises(StorageError, match="Move the file away and start the broker again"):
        opened(on)


def test_what_a_failed_write_left_is_cut_before_the_next() -> None:
    on = disk()
    book, services = opened(on)
    save(book, services, {0: Ballot(1, 1)})
    file = on.open("data/ballots")
    file.write_at(file.size(), b"0badc0de [2,]\n" * 20)
    save(book, services, {0: Ballot(2, 3)})
    assert opened(on, killed=True)[0].of((TOPIC, 0)) == Ballot(2, 3)


def test_damage_in_the_middle_is_no_torn_write() -> None:
    on = disk()
    book, services = opened(on)
    for epoch in range(1, 5):
        save(book, services, {0: Ballot(epoch, 1)})
    on.open("data/ballots").write_at(3, b"x")
    with pytest.raises(StorageError, match="damaged"):
        opened(on)


def test_a_long_file_is_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ballot_book, "REWRITE_BYTES", 1000)
    on = disk()
    book, services = opened(on)
    for epoch in range(1, 60):
        save(book, services, {0: Ballot(epoch, 1), 1: Ballot(epoch, 2)})
    assert on.open("data/ballots").size() < 2000
    again, _ = opened(on)
    assert (again.of((TOPIC, 0)), again.of((TOPIC, 1))) == (Ballot(59, 1), Ballot(59, 2))


def test_a_log_that_was_gone_is_remembered_until_the_controllers_know() -> None:
    on, key = disk(), (TOPIC, 0)
    on.sync_directory("")
    book, services = opened(on)
    book.save(key, Ballot(3, 1), lambda result: None)
    noted: list[object] = []
    book.note_lost(key, 7, noted.append)
    services.run()
    assert noted == [None]
    on.crash()
    book, services = opened(on)
    assert book.is_lost(key)
    assert book.of(key) == Ballot(3, 1)
    book.save(key, Ballot(4, 2), lambda result: None)
    services.run()
    assert opened(on)[0].lost_since(key) == 7
    book.save(key, Ballot(5, 2), lambda result: None)
    book.confessed(key)
    services.run()
    assert not opened(on)[0].is_lost(key)
    assert opened(on)[0].of(key) == Ballot(5, 2)


def test_a_loss_that_an_earlier_version_has_noted_has_no_epoch() -> None:
    on, key = disk(), (TOPIC, 0)
    body = msgspec.json.encode((1, TOPIC, 0, 3, 1, True))
    on.open("data/ballots", create=True).write_at(0, b"%08x %b\n" % (crc32(body), body))
    book, _ = opened(on)
    assert book.is_lost(key)
    assert book.lost_since(key) == -1


def test_a_new_log_is_on_disk_before_its_first_ballot() -> None:
    """Else a ballot without a log would look like a log that is gone."""
    on = disk()
    on.sync_directory("")
    book, services = opened(on)
    book.save((TOPIC, 1), Ballot(1, 1), lambda result: None)
    services.run()
    on.make_directory("data/t-0")
    book.log_begun()
    book.save((TOPIC, 0), Ballot(1, 1), lambda result: None)
    services.run()
    on.crash()
    assert on.exists("data/t-0")


def named(on: SimulatedDisk, name: UUID) -> tuple[BallotBook, FakeServices]:
    services = FakeServices()
    return BallotBook(on, "data", cast(Services, services), name), services


def test_the_name_of_the_first_ballot_stays() -> None:
    """Whatever the metadata log is called later."""
    on = disk()
    book, services = named(on, UUID(int=1))
    save(book, services, {0: Ballot(3, 1)})
    again, services = named(on, UUID(int=2))
    assert again.name == UUID(int=1)
    assert again.of((TOPIC, 0)) == Ballot(3, 1)
    save(again, services, {1: Ballot(4, 2)})
    assert named(on, UUID(int=3))[0].name == UUID(int=1)


def test_a_book_without_a_name_gets_one_with_its_next_ballot() -> None:
    """One of an earlier version."""
    on = disk()
    book, services = opened(on)
    save(book, services, {0: Ballot(3, 1)})
    named_late, services = named(on, UUID(int=1))
    save(named_late, services, {1: Ballot(4, 2)})
    assert named(on, UUID(int=2))[0].name == UUID(int=1)


def test_the_name_survives_that_the_book_is_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ballot_book, "REWRITE_BYTES", 0)
    on = disk()
    book, services = named(on, UUID(int=1))
    for epoch in range(20):
        save(book, services, {0: Ballot(epoch, 1)})
    assert named(on, UUID(int=2))[0].name == UUID(int=1)
