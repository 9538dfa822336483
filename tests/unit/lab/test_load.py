"""Records that say which they are."""

import pytest

from tidelog.lab.load import record_of, value_of


def test_a_value_says_which_record_it_is() -> None:
    assert record_of(value_of("producer-1-1", 7)) == ("producer-1-1", 7)
    assert record_of(value_of("a/b", 7, 3)) == ("a/b", 7)
    assert record_of(None) is None and record_of(b"something else") is None


@pytest.mark.parametrize("place", [0, 5, 14, 40, 99])
def test_a_damaged_value_is_no_record_of_ours(place: int) -> None:
    value = bytearray(value_of("producer-1-1", 7))
    value[place] ^= 1
    assert record_of(bytes(value)) != ("producer-1-1", 7)


def test_a_value_that_was_cut_off_in_its_number_is_another() -> None:
    assert record_of(value_of("p", 123, 20)[:4]) is None
