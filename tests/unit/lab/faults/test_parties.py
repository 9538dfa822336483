"""Parties in words."""

import pytest

from tidelog.lab.faults.parties import Party, brokers_of, words_of


@pytest.mark.parametrize(
    ("parties", "words"),
    [
        ((2,), "broker 2"),
        ((1, 3), "brokers 1 and 3"),
        ((3, 1, 2), "brokers 3, 1 and 2"),
        (("clients",), "clients"),
        ((2, "clients"), "broker 2 and clients"),
        ((), ""),
    ],
)
def test_parties_have_words(parties: tuple[Party, ...], words: str) -> None:
    assert words_of(parties) == words


def test_brokers_are_named_once() -> None:
    assert brokers_of((2, "clients", 1, 2)) == [2, 1]
