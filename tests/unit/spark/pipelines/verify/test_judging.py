"""What of an archive can be compared, and what a difference means."""

from collections.abc import Mapping

import pytest

from tidelog.spark.pipelines.tables import Place, Span
from tidelog.spark.pipelines.verify import Finding, VerifyReport, _with_removed
from tidelog.spark.pipelines.verify.judging import (
    BEYOND,
    KEPT,
    PAST,
    STRAY,
    Judged,
    Part,
    TopicNow,
    adopting,
    common_span,
    findings_of,
    part_of,
    state_of,
)

PLACE = Place("orders", "id-1", 0)
SPAN = Span(10, 100)


@pytest.mark.parametrize(
    ("now", "common"),
    [
        (TopicNow("id-1", 0, 100), Span(10, 100)),
        (TopicNow("id-1", 0, 150), Span(10, 100)),
        (TopicNow("id-1", 40, 150), Span(40, 100)),
        (TopicNow("id-1", 0, 60), Span(10, 60)),
        (TopicNow("id-1", 120, 150), Span(100, 100)),  # deleted as a whole
        (TopicNow("id-1", 0, 5), Span(10, 10)),  # the topic ends before the archive begins
        (TopicNow("id-2", 0, 100), Span(100, 100)),  # created again
        (TopicNow("", 0, 100), Span(10, 100)),  # a cluster that tells no ids
        (None, Span(100, 100)),
    ],
)
def test_only_what_both_have_is_compared(now: TopicNow | None, common: Span) -> None:
    assert common_span(PLACE, SPAN, now) == common


@pytest.mark.parametrize(
    ("offset", "part"),
    [(9, STRAY), (10, PAST), (39, PAST), (40, KEPT), (79, KEPT), (80, BEYOND), (100, STRAY)],
)
def test_rows_are_told_apart_by_offset(offset: int, part: str) -> None:
    assert part_of(offset, SPAN, Span(40, 80)) == part


def judged(now: TopicNow | None, parts: Mapping[str, Part], in_topic: Part | None = None) -> Judged:
    return Judged(PLACE, SPAN, common_span(PLACE, SPAN, now), now, parts, in_topic or Part())


def test_equal_sums_need_no_search() -> None:
    now = TopicNow("id-1", 0, 120)
    one = judged(now, {KEPT: Part(90, 7, first=10, last=99)}, Part(90, 7))
    assert not one.must_be_searched and not list(findings_of(one))
    state = state_of(one)
    assert (state.records, state.compared, state.uncompared, state.behind) == (90, 90, 0, 20)
    for other in (Part(90, 8), Part(91, 7), Part()):
        assert judged(now, one.parts, other).must_be_searched


def test_what_the_topic_deleted_is_counted_and_no_finding() -> None:
    one = judged(TopicNow("id-1", 40, 100), {PAST: Part(28, 1), KEPT: Part(60, 1)}, Part(60, 1))
    state = state_of(one)
    assert (state.uncompared, state.missing_offsets) == (28, 2)
    assert "below 40" in state.note
    assert not list(findings_of(one))


def test_a_topic_that_is_gone_has_only_its_archive() -> None:
    one = judged(None, {PAST: Part(90, 1)})
    assert not one.must_be_searched and not list(findings_of(one))
    assert "gone" in state_of(one).note and not state_of(one).exists


@pytest.mark.parametrize(
    ("now", "parts", "kind", "offset"),
    [
        (TopicNow("id-1", 0, 100), {KEPT: Part(91, duplicates=1, first=10, last=99)}, "duplicate", 10),
        (None, {PAST: Part(91, duplicates=1, first=10, last=99)}, "duplicate", 10),
        (TopicNow("id-1", 0, 100), {STRAY: Part(2, first=3, last=200)}, "stray", 3),
        (TopicNow("id-1", 0, 60), {BEYOND: Part(40, first=60, last=99)}, "unknown", 60),
        (TopicNow("id-1", 120, 150), {PAST: Part(90, first=10, last=99)}, "lost", 100),
    ],
)
def test_findings(now: TopicNow | None, parts: dict[str, Part], kind: str, offset: int) -> None:
    (found,) = findings_of(judged(now, parts))
    assert (found.kind, found.offset, found.topic, found.partition) == (kind, offset, "orders", 0)


def test_rows_without_an_id_belong_to_the_only_one() -> None:
    other, again = Place("orders", "", 1), Place("orders", "id-2", 0)
    assert adopting({PLACE: SPAN, other: SPAN}) == [PLACE, other]
    # It was created again: whose rows they are is not known, and the topic that had them is gone.
    assert adopting({PLACE: SPAN, again: SPAN}) == []


def test_records_that_the_metadata_counts_and_nobody_has_are_found() -> None:
    """Where the topic cannot tell any more."""
    whole = Judged(PLACE, SPAN, Span(100, 100), None, {PAST: Part(90, 1, 0, 0, 0, 10, 99)})
    places = [state_of(whole), state_of(Judged(PLACE, SPAN, Span(100, 100), None, {PAST: Part(70, 1, 2)}))]
    report = VerifyReport(places, [], {}, True)
    assert _with_removed(report, 158) is report
    found = _with_removed(report, 168)
    assert found.counts == {"removed": 10} and not found.holds
    assert "10 of the archived records are gone" in found.findings[0].detail
    # Those that the topic has are told already, one by one.
    told = VerifyReport(places, [Finding("missing", *PLACE, 11, "")], {"missing": 10}, True)
    assert _with_removed(told, 168) is told
    # A copy of a file does not make up for one that is gone.
    copied = VerifyReport(
        [state_of(Judged(PLACE, SPAN, Span(100, 100), None, {PAST: Part(90, 1, 45)}))], [], {}, True
    )
    assert _with_removed(copied, 90).counts == {"removed": 45}
