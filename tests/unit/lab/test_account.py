"""An account finds what must not happen to records."""

from tidelog.lab.account import Account, Verdict, together


def account(acknowledged: dict[int, int | None], received: list[tuple[int, int]]) -> Verdict:
    kept = Account("t-0")
    for sequence, offset in acknowledged.items():
        kept.acknowledged(sequence, offset)
    for sequence, offset in received:
        kept.received(sequence, offset)
    return kept.verdict()


def test_all_is_well() -> None:
    verdict = account({0: 0, 1: 2, 2: None}, [(0, 0), (1, 2), (2, 3)])
    assert verdict == Verdict(acknowledged=3, received=3)
    assert verdict.is_clean


def test_what_failed_may_be_there_or_not() -> None:
    assert account({0: 0, 3: 2}, [(0, 0), (1, 1), (3, 2)]).is_clean


def test_lost() -> None:
    verdict = account({0: 0, 1: 1, 2: 2}, [(0, 0), (2, 2)])
    assert (verdict.lost, verdict.is_clean) == (1, False)
    assert verdict.examples == ("t-0: record 1, acknowledged at 1, is not there",)


def test_twice() -> None:
    verdict = account({0: 0, 1: 1}, [(0, 0), (1, 1), (0, 2)])
    assert (verdict.doubled, verdict.disordered, verdict.lost) == (1, 0, 0)


def test_out_of_order() -> None:
    verdict = account({0: None, 1: None}, [(1, 0), (0, 1)])
    assert (verdict.disordered, verdict.is_clean) == (1, False)


def test_at_another_place() -> None:
    assert account({0: 0}, [(0, 7)]).misplaced == 1


def test_partitions_are_added_up() -> None:
    both = together([account({0: 0}, []), account({0: 0, 1: 1}, [(0, 0), (1, 1)])])
    assert (both.acknowledged, both.received, both.lost) == (3, 2, 1)
    assert len(both.examples) == 1
