"""What an archive still has to read, and what it says about records that are gone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.archive_plan import Plan, plan
from tidelog.spark.pipelines.archive_view import Seen, View
from tidelog.spark.pipelines.stepping import seconds_of
from tidelog.spark.pipelines.tables import Place, Position, Span

OLD, NEW = "old-id", "new-id"
ORDERS = Place("orders", OLD, 0)


def seen(
    earliest: int,
    latest: int,
    *,
    place: Place = ORDERS,
    start: int | None = None,
    since: int | None = None,
    until: int | None = None,
) -> Seen:
    return Seen(place, earliest, latest, earliest if start is None else start, since, until)


def made(known: dict[Place, Span], *partitions: Seen, **more: object) -> Plan:
    return plan(Position(known), View(list(partitions), **more))  # type: ignore[arg-type]


def carried_out(found: Plan, rows: int = 7) -> tuple[list[dict[Place, Span]], Position]:
    steps = []
    while not found.is_done:
        steps.append(found.take(rows))
        found.before = found.position
        assert len(steps) < 1000
    return steps, found.position


def test_a_new_archive_begins_where_the_options_say() -> None:
    steps, position = carried_out(made({}, seen(5, 25, start=10)))
    assert steps == [{ORDERS: Span(10, 17)}, {ORDERS: Span(17, 24)}, {ORDERS: Span(24, 25)}]
    assert position.spans == {ORDERS: Span(10, 25)}


def test_an_empty_partition_gets_a_position_too() -> None:
    """Otherwise a run with startingOffsets=latest would begin at another end each time."""
    steps, position = carried_out(made({}, seen(0, 9, start=9)))
    assert steps == [{}] and position.spans == {ORDERS: Span(9, 9)}
    assert made(dict(position.spans), seen(0, 9, start=9)).is_done


def test_a_topic_that_was_created_again_is_archived_from_its_beginning() -> None:
    again = ORDERS._replace(topic_id=NEW)
    for latest in (3, 300):  # fewer records than before, or more
        found = made({ORDERS: Span(0, 100)}, seen(0, latest, place=again))
        assert not found.losses and "deleted and created again" in found.notes[0]
        steps, position = carried_out(found, 1000)
        assert steps == [{again: Span(0, latest)}]
        assert position.spans == {ORDERS: Span(0, 100), again: Span(0, latest)}


@pytest.mark.parametrize("new", [NEW, ""])  # "": brokers that report no ids
def test_partitions_that_a_topic_has_no_more_are_told_once(new: str) -> None:
    """The report named only the partitions that the new topic has, too."""
    first = {
        ORDERS._replace(topic_id=OLD if new else "", partition=number): Span(0, 9) for number in range(3)
    }
    again = ORDERS._replace(topic_id=new)
    found = made(first, seen(0, 9, place=again), seen(0, 9, place=Place("bills", new, 0)))
    told = [note for note in found.notes if "is not there any more" in note]
    assert [note.partition(" ")[0] for note in told] == ["orders-1", "orders-2"]
    assert all("archived up to offset 9, and records behind that are lost" in note for note in told)
    _, position = carried_out(found)
    later = made(dict(position.spans), seen(0, 20, place=again))
    assert any("is not there any more" in note for note in later.notes) == (not new)
    assert not found.losses and not later.losses
    assert {place.partition for place in position.spans if place.topic == "orders"} == {0, 1, 2}


def test_records_that_retention_deleted_first_are_a_loss() -> None:
    found = made({ORDERS: Span(0, 100)}, seen(150, 160))
    assert "begins at offset 150, and was archived up to 100" in found.losses[0]
    steps, position = carried_out(found, 1000)
    assert steps == [{ORDERS: Span(150, 160)}] and position.spans == {ORDERS: Span(0, 160)}
    all_deleted = made({ORDERS: Span(0, 100)}, seen(150, 150))
    assert all_deleted.losses and carried_out(all_deleted) == ([{}], Position({ORDERS: Span(0, 150)}))


def test_a_new_partition_whose_first_records_are_gone_is_a_loss() -> None:
    other = ORDERS._replace(partition=1)
    found = made({ORDERS: Span(0, 100)}, seen(0, 100), seen(20, 30, place=other))
    assert "orders-1 is new and begins at offset 20" in found.losses[0]
    assert not made({}, seen(20, 30)).losses  # nothing was promised of what was before the archive


def test_a_topic_that_shrank_is_a_loss() -> None:
    found = made({ORDERS: Span(10, 100)}, seen(0, 40))
    assert found.shrunk and "ends at offset 40, and was archived up to 100" in found.losses[0]
    assert carried_out(found)[1].spans == {ORDERS: Span(10, 40)}  # what comes next is not skipped
    unnamed = ORDERS._replace(topic_id="")
    without_ids = made({unnamed: Span(10, 100)}, seen(0, 40, place=unnamed))
    assert "or the topic was created again" in without_ids.losses[0]
    assert "report no topic ids" in without_ids.notes[0]
    assert carried_out(without_ids, 100) == ([{unnamed: Span(0, 40)}], Position({unnamed: Span(0, 40)}))


def test_an_archive_from_before_topic_ids_continues_if_it_fits() -> None:
    unnamed = ORDERS._replace(topic_id="")
    found = made({unnamed: Span(0, 100)}, seen(50, 100))
    assert not found.is_done and not found.notes
    assert carried_out(found) == ([{}], Position({ORDERS: Span(0, 100)}))
    other = made({unnamed: Span(0, 100)}, seen(0, 60))
    assert "deleted and created again" in other.notes[0] and not other.losses
    assert carried_out(other)[1].spans == {unnamed: Span(0, 100), ORDERS: Span(0, 60)}


def test_a_range_of_time_extends_an_archive_to_both_sides() -> None:
    found = made({ORDERS: Span(50, 60)}, seen(5, 100, since=30, until=70))
    steps, position = carried_out(found, 8)
    ranges = [step[ORDERS] for step in steps]
    assert ranges == [Span(60, 68), Span(68, 70), Span(42, 50), Span(34, 42), Span(30, 34)]
    assert position.spans == {ORDERS: Span(30, 70)}
    assert carried_out(made({}, seen(5, 100, since=30, until=70)), 100)[1].spans == {ORDERS: Span(30, 70)}
    assert carried_out(made({}, seen(40, 100, since=30)), 100)[1].spans == {ORDERS: Span(40, 100)}
    with pytest.raises(OptionError, match="up to offset 60, and --from-time begins at 80"):
        made({ORDERS: Span(50, 60)}, seen(5, 100, since=80))


def test_topics_that_are_not_there() -> None:
    with pytest.raises(OptionError, match=r"There is no topic nosuch to archive; there is nosuk\."):
        made({}, missing={"nosuch": ["nosuk"]})
    with pytest.raises(OptionError, match=r"There is no topic nosuch to archive\."):
        made({}, missing={"nosuch": []})
    gone = made({ORDERS: Span(0, 5)}, missing={"orders": []})
    assert "orders is not there any more" in gone.losses[0] and gone.is_done
    assert gone.position.spans == {ORDERS: Span(0, 5)}
    assert "pattern" in made({ORDERS: Span(0, 5)}, gone=["orders"]).notes[0]


spans = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: Span(min(pair), max(pair)))


@given(st.dictionaries(st.integers(0, 3), st.tuples(spans, spans, st.none() | st.integers(0, 50))), st.data())
def test_whatever_the_cluster_has_every_offset_is_read_once_or_reported(
    partitions: dict[int, tuple[Span, Span, int | None]], data: st.DataObject
) -> None:
    known, view = {}, []
    for number, (archived, there, since) in partitions.items():
        place = Place("t", data.draw(st.sampled_from([OLD, NEW])), number)
        if data.draw(st.booleans()):
            known[Place("t", OLD, number)] = archived
        view.append(seen(there.start, there.end, place=place, since=since))
    try:
        found = made(known, *view)
    except OptionError:
        return
    has_losses = bool(found.losses)
    steps, position = carried_out(found, data.draw(st.integers(1, 30)))
    for one in view:
        read = [offset for step in steps for offset in range(*step.get(one.place, Span(0, 0)))]
        assert len(read) == len(set(read)) and all(one.earliest <= offset < one.latest for offset in read)
        before = known.get(one.place)
        span = position.spans[one.place]
        if not has_losses:
            had = [] if before is None else list(range(*before))
            assert sorted([*had, *read]) == list(range(*span))
        assert span.end == one.latest
    assert all(place in position.spans for place in known)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10 seconds", 10), ("1 minute", 60), ("interval 1 hour 30 minutes", 5400), ("500ms", 0.5), ("2h", 7200),
     ("1.5 s", 1.5), ("1 day", 86400)],
)  # fmt: skip
def test_intervals_are_those_of_spark(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "ten seconds", "10", "10 parsecs", "5 minutes or so"])
def test_other_intervals_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="allowed: a time such as '10 seconds'"):
        seconds_of(text)
