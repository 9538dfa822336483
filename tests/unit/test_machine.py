"""The state of a machine as data, and copies of it."""

from collections import deque
from enum import Enum

from tidelog.errors import ErrorCode
from tidelog.log.epochs import EpochCache
from tidelog.machine import Machine
from tidelog.replication.effects import Commit, CompleteProduce
from tidelog.replication.limits import Limits
from tidelog.replication.modes import MODES
from tidelog.replication.replica import Replica


class Colour(Enum):
    RED = 1


class Part:
    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = [1]


class Small(Machine):
    SURROUNDINGS = frozenset({"log"})

    def __init__(self, log: object) -> None:
        self.log = log
        self.colour = Colour.RED
        self.parts = {2: Part()}
        self.queue = deque([(1, None)])
        self.names = {"a"}


def test_data_is_plain_and_leaves_out_what_is_only_asked() -> None:
    data = Small(object()).as_data()
    assert data == (
        ("colour", Colour.RED),
        ("parts", ((2, ("Part", ("held", (1,)))),)),
        ("queue", ((1, None),)),
        ("names", frozenset({"a"})),
    )
    assert hash(data) == hash(Small(object()).as_data())


def test_a_copy_goes_its_own_way() -> None:
    machine = Small("log")
    copy = machine.copied()
    assert copy.as_data() == machine.as_data()
    assert copy.log == "log"
    copy.parts[2].held.append(2)
    copy.queue.clear()
    copy.names.add("b")
    assert machine.as_data() == Small("log").as_data()


def test_a_copy_in_other_surroundings() -> None:
    assert Small("log").copied(log="other").log == "other"


class Log:
    start_offset = end_offset = synced_end_offset = 0
    epochs = EpochCache()


def test_a_replica_and_its_copy_do_the_same() -> None:
    log = Log()
    replica = Replica(1, log, MODES["isr"].policy, Limits(min_in_sync=1))
    replica.lead(1, (1, 2), (1, 2), 0, 0)
    log.end_offset = 1
    assert replica.verdict(1, -1) is None
    replica.wait(1, -1, 1000, 7)
    before, copy = replica.as_data(), replica.copied()
    expected = [Commit(1), CompleteProduce(7, ErrorCode.NONE)]
    assert copy.fetched(2, 1, 1, -1, 0, 5).effects == expected
    assert replica.as_data() == before != copy.as_data()
    assert replica.fetched(2, 1, 1, -1, 0, 5).effects == expected
    assert replica.as_data() == copy.as_data()
