"""The history of leader epochs by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import CorruptBatch, InvariantViolation
from tidelog.log.epochs import EpochCache


def cache_of(*entries: tuple[int, int]) -> EpochCache:
    cache = EpochCache()
    for epoch, start in entries:
        cache.assign(epoch, start)
    return cache


def test_an_epoch_begins_once() -> None:
    cache = cache_of((1, 0), (1, 5), (3, 9))
    assert cache.entries == [(1, 0), (3, 9)]
    assert cache.latest == 3


def test_an_epoch_without_records_gives_way_to_the_next_at_the_same_offset() -> None:
    cache = cache_of((1, 0), (2, 10), (4, 10))
    assert cache.entries == [(1, 0), (4, 10)]


def test_batches_without_an_epoch_change_nothing() -> None:
    cache = cache_of((-1, 0), (1, 3), (-1, 5))
    assert cache.entries == [(1, 3)]


def test_epochs_never_go_back_behind_records() -> None:
    with pytest.raises(InvariantViolation):
        cache_of((5, 0), (3, 7))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),  # Before all that is known: it can only have ended where history begins.
        (1, (1, 20)),
        (2, (1, 20)),
        (3, (3, 35)),
        (4, (3, 35)),
        (5, (5, 99)),
        (6, (-1, -1)),
    ],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next(asked: int, answer: tuple[int, int]) -> None:
    assert cache_of((1, 10), (3, 20), (5, 35)).end_offset_for(asked, 99) == answer


def test_an_empty_history_knows_nothing() -> None:
    assert EpochCache().end_offset_for(0, 5) == (-1, -1)
    assert EpochCache().epoch_at(0) == -1


def test_the_epoch_of_an_offset() -> None:
    cache = cache_of((1, 10), (3, 20))
    assert [cache.epoch_at(offset) for offset in (9, 10, 19, 20, 500)] == [-1, 1, 1, 3, 3]


@pytest.mark.parametrize(
    ("end", "left"),
    [(36, 3), (35, 2), (21, 2), (20, 1), (11, 1), (10, 0), (0, 0)],
)
def test_truncation_from_the_end(end: int, left: int) -> None:
    cache = cache_of((1, 10), (3, 20), (5, 35))
    cache.truncate_from(end)
    assert cache.entries == [(1, 10), (3, 20), (5, 35)][:left]
    assert cache.latest == ([-1, 1, 3, 5][left])


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (5, [(1, 10), (3, 20), (5, 35)]),
        (10, [(1, 10), (3, 20), (5, 35)]),
        (15, [(1, 15), (3, 20), (5, 35)]),
        (20, [(3, 20), (5, 35)]),
        (90, [(5, 90)]),
    ],
)
def test_truncation_from_the_start(start: int, left: list[tuple[int, int]]) -> None:
    cache = cache_of((1, 10), (3, 20), (5, 35))
    cache.truncate_before(start)
    assert cache.entries == left


def test_the_text_is_kafkas_but_for_the_width_of_a_gap() -> None:
    text = cache_of((1, 10), (3, 20)).encode()
    assert [row.split() for row in text.splitlines()] == [[b"0"], [b"2"], [b"1", b"10"], [b"3", b"20"]]
    assert EpochCache().encode() == b"0\n0\n"


def test_a_file_without_a_checksum_is_believed() -> None:
    """Of an earlier version, or of Kafka."""
    assert EpochCache.decode(b"0\n2\n1 10\n3 20\n").entries == [(1, 10), (3, 20)]


@pytest.mark.parametrize("entries", [((1, 10),), ((1, 10), (3, 20)), ((0, 0), (2, 7), (12, 345))])
def test_no_flipped_bit_makes_another_history(entries: tuple[tuple[int, int], ...]) -> None:
    text = cache_of(*entries).encode()
    for place in range(8 * len(text)):
        flipped = bytearray(text)
        flipped[place // 8] ^= 1 << place % 8
        try:
            found = EpochCache.decode(bytes(flipped)).entries
        except CorruptBatch:
            continue
        assert found == list(entries)


@given(st.dictionaries(st.integers(0, 1000), st.integers(1, 50)))
def test_text_and_history_are_the_same(steps: dict[int, int]) -> None:
    cache = EpochCache()
    start = 0
    for epoch, step in sorted(steps.items()):
        cache.assign(epoch, start)
        start += step
    again = EpochCache.decode(cache.encode())
    assert again.entries == cache.entries
    assert again.latest == cache.latest


@given(st.binary(max_size=60))
def test_any_text_is_a_history_or_refused(text: bytes) -> None:
    try:
        entries = EpochCache.decode(text).entries
    except CorruptBatch:
        return
    assert entries == sorted(entries)
