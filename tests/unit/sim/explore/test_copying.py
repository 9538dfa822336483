"""Copies share nothing that can change, and fingerprints tell states apart by what they mean."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tidelog.sim.explore.copying import LONG_AGO_MS, Copier, Fingerprints


class Slotted:
    __slots__ = ("items", "unset")

    def __init__(self) -> None:
        self.items: deque[int] = deque([1])


class Pair(NamedTuple):
    left: list[int]
    right: int


class Owner:
    def __init__(self) -> None:
        self.slotted = Slotted()
        self.same = self.slotted
        self.pair = Pair([1], 2)
        self.by_key: dict[Slotted, set[int]] = {self.slotted: {1}}
        self.heard_ms = 0
        self.waiting: list[Callable[[], None]] = [self.add, lambda: self.add()]
        self.find = self.by_key.get

    def add(self) -> None:
        self.slotted.items.append(2)


def print_of(value: object, now_ms: int = 0) -> object:
    return Fingerprints().of(value, now_ms)


def test_a_copy_shares_nothing_that_can_change() -> None:
    owner = Owner()
    copy = Copier().copy(owner)
    copy.slotted.items.append(9)
    copy.pair.left.append(9)
    copy.by_key[copy.slotted].add(9)
    assert list(owner.slotted.items) == [1]
    assert owner.pair.left == [1]
    assert owner.by_key == {owner.slotted: {1}}


def test_what_was_one_object_is_one_in_the_copy() -> None:
    copy = Copier().copy(Owner())
    assert copy.same is copy.slotted
    assert list(copy.by_key) == [copy.slotted]


def test_methods_and_closures_in_a_copy_belong_to_it() -> None:
    owner = Owner()
    copy = Copier().copy(owner)
    for each in copy.waiting:
        each()
    assert list(copy.slotted.items) == [1, 2, 2]
    assert list(owner.slotted.items) == [1]
    assert copy.find(copy.slotted) is copy.by_key[copy.slotted]


def test_a_tuple_without_anything_that_changes_is_shared() -> None:
    value = (1, ("a", b"b"))
    assert Copier().copy(value) is value


def test_copies_have_the_same_fingerprint() -> None:
    owner = Owner()
    assert print_of(owner) == print_of(Copier().copy(owner))


def test_every_change_changes_the_fingerprint() -> None:
    before = print_of(Owner())
    longer, other = Owner(), Owner()
    longer.add()
    other.waiting.pop()
    assert len({before, print_of(longer), print_of(other)}) == 3


def test_times_are_told_by_their_age_and_long_ago_is_all_the_same() -> None:
    early, late = Owner(), Owner()
    early.heard_ms, late.heard_ms = 1000, 2000
    assert print_of(early, 1500) == print_of(late, 2500)
    assert print_of(early, 1500) != print_of(late, 2600)
    assert print_of(early, 2000 + LONG_AGO_MS) == print_of(late, 2000 + LONG_AGO_MS)
