"""Which process of a broker the active controller registers: the newest, whatever arrives late."""

from typing import Any
from uuid import UUID

import pytest

from tidelog.config import BrokerConfig
from tidelog.controller import brokers, snapshot
from tidelog.controller.controller import SessionTiming
from tidelog.controller.driver import ControllerDriver
from tidelog.controller.image import ClusterImage
from tidelog.controller.messages import RegisterAsk, RegisterGot
from tidelog.controller.records import BrokerUnregistered
from tidelog.controller.store import Decide, Done
from tidelog.errors import ErrorCode, TidelogError

NONE, STALE = ErrorCode.NONE, ErrorCode.STALE_BROKER_EPOCH
BROKER = 1


class Store:
    """A metadata log whose decisions are committed when the test says so."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.committed_offset = 0
        self.leader = 0
        self._decided = ClusterImage()
        self._waiting: list[Done] = []

    def submit(self, decide: Decide, done: Done) -> None:
        try:
            self._decided = self._decided.apply(decide(self._decided))
        except TidelogError as refusal:
            done(refusal)
            return
        self._waiting.append(done)

    def commit(self) -> None:
        self.image = self._decided
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(None)


class Registrations:
    """One broker, processes of which ask to be registered."""

    def __init__(self) -> None:
        self.store = Store()
        self.controller = ControllerDriver.of(self.store, BrokerConfig.parse({}), SessionTiming())
        self.controller.activate(0)
        self.got: list[Any] = []

    def ask(self, process: int, known_epoch: int | None, *, disk: int = 1, forgot: bool = False) -> None:
        ask = RegisterAsk(
            BROKER, UUID(int=process), "here", 9092, None, forgot, UUID(int=disk), known_epoch=known_epoch
        )
        self.controller.handle(ask, 0, self.got.append)

    def answer(self, process: int, known_epoch: int | None, *, disk: int = 1) -> tuple[ErrorCode, int]:
        self.got.clear()
        self.ask(process, known_epoch, disk=disk)
        self.store.commit()
        (got,) = self.got
        assert isinstance(got, RegisterGot)
        assert got.incarnation == UUID(int=process)
        return got.error, got.broker_epoch

    @property
    def registered(self) -> int:
        return self.store.image.brokers[BROKER].incarnation.int


@pytest.fixture
def two() -> Registrations:
    """A first process has registered, and then a second one."""
    made = Registrations()
    assert made.answer(1, 0) == (NONE, 1)
    assert made.answer(2, 1) == (NONE, 2)
    return made


def test_a_process_that_knows_of_no_registration_is_told_and_asks_again(two: Registrations) -> None:
    assert two.answer(3, 0) == (STALE, 2)
    assert two.registered == 2
    assert two.answer(3, 2) == (NONE, 3)
    assert two.registered == 3


@pytest.mark.parametrize("known_epoch", [0, 1])
def test_an_earlier_process_does_not_take_the_place_back(two: Registrations, known_epoch: int) -> None:
    before = two.store.image
    assert two.answer(1, known_epoch) == (STALE, 2)
    assert two.store.image == before


def test_an_earlier_process_on_another_disk_does_not_either(two: Registrations) -> None:
    before = two.store.image
    assert two.answer(1, 1, disk=7) == (STALE, 2)
    assert two.store.image == before


def test_the_registered_process_asks_again_whatever_it_knows(two: Registrations) -> None:
    assert two.answer(2, 0) == (NONE, 2)


def test_a_process_of_an_earlier_version_does_not_say_what_it_knows(two: Registrations) -> None:
    assert two.answer(3, None) == (NONE, 3)


def test_an_epoch_that_is_not_committed_is_not_told(two: Registrations) -> None:
    """Its controller may be replaced, and the next one give the same number to another process."""
    two.got.clear()
    two.ask(3, 2)
    two.ask(4, 2)
    assert [(got.incarnation.int, got.error, got.broker_epoch) for got in two.got] == [(4, STALE, 2)]
    two.store.commit()
    assert two.answer(4, 3) == (NONE, 4)


def test_two_processes_in_one_commit_do_not_share_an_epoch(two: Registrations) -> None:
    two.got.clear()
    two.ask(3, 2)
    two.ask(4, None)
    two.store.commit()
    answers = [(got.incarnation.int, got.error, got.broker_epoch) for got in two.got]
    assert answers == [(3, STALE, 4), (4, NONE, 4)]


class TestUnregistered:
    @pytest.fixture
    def gone(self, two: Registrations) -> Registrations:
        two.store.submit(lambda image: brokers.unregister(image, BROKER), lambda error: None)
        two.store.commit()
        assert BROKER not in two.store.image.brokers
        return two

    @pytest.mark.parametrize("process", [1, 2, 3])
    def test_a_late_ask_does_not_bring_a_broker_back(self, gone: Registrations, process: int) -> None:
        assert gone.answer(process, 2) == (STALE, 3)
        assert BROKER not in gone.store.image.brokers

    def test_a_living_process_registers_again(self, gone: Registrations) -> None:
        assert gone.answer(2, 3) == (NONE, 4)
        assert gone.store.image.gone == {}

    def test_it_is_remembered_by_snapshots(self, gone: Registrations) -> None:
        restored = snapshot.image_of(snapshot.texts_of(gone.store.image))
        assert restored.registration_epoch(BROKER) == restored.last_broker_epoch == 3

    def test_it_takes_an_epoch_of_its_own(self, two: Registrations) -> None:
        after = two.store.image.apply([BrokerUnregistered(BROKER)])
        assert after.registration_epoch(BROKER) == two.store.image.last_broker_epoch + 1
