"""Each figure of consistency by hand."""

from tidelog.lab.figures.consistency import consistency

from .made_up import event, read, topic, write


def test_all_is_well() -> None:
    found = consistency(
        topic(write("acknowledged", 0, 1, offset=0), write("failed", 1, 2), read("received", 0, 9, 0))
    )
    assert found.verdict.is_clean and found.failed == 1 and found.examples == ()


def test_there_though_never_acknowledged() -> None:
    found = consistency(topic(write("failed", 0, 1), read("received", 0, 9, 0), read("received", 1, 9, 1)))
    assert found.unacknowledged == 2 and found.verdict.is_clean


def test_producers_and_partitions_have_accounts_of_their_own() -> None:
    found = consistency(
        topic(
            read("received", 1, 9, 0), read("received", 0, 9, 1, producer="q"),
            read("received", 0, 9, 0, partition=1),
        )
    )  # fmt: skip
    assert found.verdict.is_clean


def test_read_twice_from_the_same_place_is_one_record() -> None:
    found = consistency(topic(read("received", 0, 8, 0), read("received", 0, 9, 0)))
    assert (found.verdict.received, found.verdict.doubled) == (1, 0)


def test_a_copy_at_the_acknowledged_place_is_not_misplaced() -> None:
    twice = (read("received", 0, 9, 3), read("received", 0, 9, 7))
    found = consistency(topic(write("acknowledged", 0, 1, offset=7), *twice))
    assert (found.verdict.doubled, found.verdict.misplaced) == (1, 0)
    found = consistency(topic(write("acknowledged", 0, 1, offset=5), *twice))
    assert (found.verdict.doubled, found.verdict.misplaced) == (1, 1)


def test_read_then_gone() -> None:
    found = consistency(topic(read("consumed", 0, 3, 0, reader="g"), read("received", 1, 9, 0)))
    assert found.vanished == 1 and "was read and is gone" in found.examples[-1]


def test_open_transactions_may_be_read_by_those_who_ask_for_it() -> None:
    aborted = write("aborted", 0, 2, transaction=0)
    assert consistency(topic(aborted, read("consumed-raw", 0, 3, 0))).vanished == 0
    assert consistency(topic(aborted, read("consumed", 0, 3, 0))).vanished == 1
    assert consistency(topic(write("failed", 0, 2), read("consumed-raw", 0, 3, 0))).vanished == 1


def test_torn_transactions() -> None:
    both = (write("acknowledged", 0, 2, transaction=0), write("acknowledged", 1, 2, transaction=0))
    assert consistency(topic(*both, read("received", 0, 9, 0))).torn_transactions == 1
    assert consistency(topic(*both)).torn_transactions == 0  # lost as a whole
    whole = (read("received", 0, 9, 0), read("received", 1, 9, 1))
    assert consistency(topic(*both, *whole)).torn_transactions == 0
    aborted = tuple(write("aborted", number, 2, transaction=0) for number in (0, 1))
    assert consistency(topic(*aborted, *whole)).torn_transactions == 1
    unclear = tuple(write("failed", number, 2, transaction=0) for number in (0, 1))
    assert consistency(topic(*unclear, *whole)).torn_transactions == 0


def test_committed_offsets_that_were_taken_back() -> None:
    def offset(kind: str, ms: float, at: int, partition: int = 0) -> object:
        return event(kind, ms, partition=partition, offset=at, reader="g")

    steps = [offset("committed", 1, 10), offset("committed", 2, 20), offset("found", 3, 20)]
    assert consistency(topic(*steps)).lost_commits == 0  # type: ignore[arg-type]
    steps += [offset("found", 4, 5), offset("found", 5, 5), offset("found", 5, 1, partition=1)]
    steps += [offset("committed", 6, 30)]
    assert consistency(topic(*steps)).lost_commits == 2  # type: ignore[arg-type]


def test_skipped_by_a_group_that_went_on() -> None:
    writes = [write("acknowledged", number, number, offset=number) for number in range(6)]
    there = [read("received", number, 90, number) for number in range(6)]
    seen = [read("consumed", number, 50, number, reader="g") for number in (1, 2, 4)]
    found = consistency(topic(*writes, *there, *seen))
    # It began with 1 and has not reached 5 yet.
    assert found.skipped == 1
    assert found.examples == ("group g did not read record 3 of p in partition 0",)
    assert consistency(topic(*writes, *there, *seen, read("consumed", 3, 60, 3, reader="g"))).skipped == 0
    # Nor does it count if it is not there, was never acknowledged, or is another partition's.
    assert consistency(topic(*writes, *there[:3], *there[4:], *seen)).skipped == 0
    assert consistency(topic(*writes[:3], *writes[4:], *there, *seen)).skipped == 0
    elsewhere = [read("consumed", number, 50, number, partition=1, reader="h") for number in (0, 5)]
    assert consistency(topic(*writes, *there, *elsewhere)).skipped == 0


def test_a_producer_that_crashed_in_a_transaction_took_nothing_back() -> None:
    """Its records have no event, and its next incarnation aborts them."""
    before = (write("acknowledged", 0, 1, transaction=0), read("received", 0, 9, 0))
    for producer in ("p", "p.1"):
        left = read("consumed-raw", 1, 3, 1, producer=producer)
        assert consistency(topic(*before, left)).vanished == 0
    gone = (write("acknowledged", 1, 2, transaction=1), read("consumed-raw", 1, 3, 1))
    assert consistency(topic(*before, *gone)).vanished == 1
    assert consistency(topic(*before, read("consumed-raw", 1, 3, 1, producer="q"))).vanished == 1


def test_partitions_in_which_something_is_missing() -> None:
    fine = (write("acknowledged", 0, 1, offset=0), read("received", 0, 9, 0))
    assert consistency(topic(*fine)).harmed == ()
    lost = write("acknowledged", 0, 1, partition=4, offset=0)
    gone = read("consumed", 0, 3, 0, partition=2, reader="g")
    assert consistency(topic(*fine, lost, gone)).harmed == (2, 4)
    half = (write("acknowledged", 1, 2, transaction=0, offset=1), read("received", 1, 9, 1))
    other = write("acknowledged", 0, 2, partition=7, transaction=0)
    assert consistency(topic(*fine, *half, other)).harmed == (7,)
    aborted = (write("aborted", 0, 2, partition=5, transaction=1), read("received", 0, 9, 0, partition=5))
    assert consistency(topic(*fine, *aborted)).harmed == (5,)
