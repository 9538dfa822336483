"""What an archive still has to read, in bounded steps; and what it cannot read any more.

Pure: a position and a view of the cluster go in, ranges of offsets come out. Owns the rules about topics that
were created again, shrank, or lost records before they were archived. No offset is ever skipped without a
sentence about it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.archive_view import Seen, View
from tidelog.spark.pipelines.tables import Place, Position, Span
from tidelog.spark.reading.limits import share

Ranges = dict[Place, Span]


@dataclass(slots=True)
class Goal:
    """One partition: what the archive has, and what is to be read before and after it."""

    known: Span
    up: Span  # Begins at known.end, or after it where records are lost.
    down: Span  # Ends at known.start.


@dataclass(slots=True)
class Plan:
    """How to bring an archive up to date with a view."""

    before: Position
    goals: dict[Place, Goal] = field(default_factory=dict)
    others: dict[Place, Span] = field(default_factory=dict)  # Of the position, and not read any more.
    losses: list[str] = field(default_factory=list)  # Sentences without their full stops.
    notes: list[str] = field(default_factory=list)
    shrunk: bool = False  # A partition ends before what was archived of it; a failover may explain it.

    @property
    def rows_left(self) -> int:
        return sum(goal.up.size + goal.down.size for goal in self.goals.values())

    @property
    def position(self) -> Position:
        """With what was done so far."""
        return Position(self.others | {place: goal.known for place, goal in self.goals.items()})

    @property
    def is_done(self) -> bool:
        return self.rows_left == 0 and self.position == self.before

    def take(self, rows: int) -> Ranges:
        """The ranges of the next step, about that many offsets; the plan then counts them as done. New
        records come first; records before those of the archive follow from the newest to the oldest, so that
        what it has is always one range.
        """
        ups = {place: goal.up for place, goal in self.goals.items() if goal.up.size}
        if ups:
            return self._take_up(ups, rows)
        downs = {place: goal.down for place, goal in self.goals.items() if goal.down.size}
        return self._take_down(downs, rows) if downs else {}

    def _take_up(self, ups: Ranges, rows: int) -> Ranges:
        sizes = _shares(ups, rows)
        ranges = {place: Span(up.start, up.start + sizes[place]) for place, up in ups.items()}
        for place, taken in ranges.items():
            goal = self.goals[place]
            goal.known = Span(goal.known.start, taken.end)
            goal.up = Span(taken.end, goal.up.end)
        return ranges

    def _take_down(self, downs: Ranges, rows: int) -> Ranges:
        sizes = _shares(downs, rows)
        ranges = {place: Span(down.end - sizes[place], down.end) for place, down in downs.items()}
        for place, taken in ranges.items():
            goal = self.goals[place]
            goal.known = Span(taken.start, goal.known.end)
            goal.down = Span(goal.down.start, taken.start)
        return ranges


def plan(position: Position, view: View) -> Plan:
    """Raises :class:`OptionError` for topics that never existed and times that would leave a gap."""
    made = Plan(position)
    by_partition: dict[tuple[str, int], dict[str, Span]] = {}
    for one, offsets in position.spans.items():
        by_partition.setdefault((one.topic, one.partition), {})[one.topic_id] = offsets
    archived_topics = {place.topic for place in position.spans}
    adopted: set[Place] = set()
    for seen in view.partitions:
        place = seen.place
        known = dict(by_partition.get((place.topic, place.partition), {}))
        span: Span | None = known.pop(place.topic_id) if place.topic_id in known else None
        if span is None and (unnamed := known.get("")) is not None and _continues(unnamed, seen):
            # From a time when ids were not recorded; it fits, so it is the same topic.
            span = unnamed
            adopted.add(place._replace(topic_id=""))
        if span is None:
            made.goals[place] = _begin(made, seen, is_known=place.topic in archived_topics, earlier=known)
        else:
            made.goals[place] = _continue(made, seen, span)
    others = position.spans.keys() - made.goals.keys() - adopted
    made.others = {place: position.spans[place] for place in others}
    _tell_missing(made, view, archived_topics)
    _tell_vanished(made, view)
    if any(not seen.place.topic_id for seen in view.partitions):
        made.notes.append(
            "The brokers report no topic ids, as Kafka does since version 2.8: a topic that is created again "
            "is noticed only if it has fewer records than before"
        )
    return made


def _continues(span: Span, seen: Seen) -> bool:
    return seen.earliest <= span.end <= seen.latest


def _begin(made: Plan, seen: Seen, *, is_known: bool, earlier: Mapping[str, Span]) -> Goal:
    """A partition that the archive does not have."""
    place = seen.place
    start = seen.start if seen.from_offset is None else max(seen.from_offset, seen.earliest)
    start = min(start, seen.latest)  # an offset behind the end would seem lost the next time
    if earlier:
        end = max(span.end for span in earlier.values())
        made.notes.append(
            f"{place} belongs to a topic that was deleted and created again, or to another cluster: the one "
            f"before was archived up to offset {end}, records behind that are lost if there were any and it "
            "was deleted, and the new one is archived from its beginning"
        )
    if is_known and seen.from_offset is None and seen.earliest > 0:
        made.losses.append(
            f"{place} is new and begins at offset {seen.earliest}: the records before it were deleted before "
            "they were archived"
        )
    end = max(_end(seen), start)
    return Goal(Span(start, start), Span(start, end), Span(start, start))


def _continue(made: Plan, seen: Seen, span: Span) -> Goal:
    place = seen.place
    if seen.latest < span.end:
        made.shrunk = True
        again = "" if place.topic_id else ", or the topic was created again, which this cluster does not tell"
        made.losses.append(
            f"{place} ends at offset {seen.latest}, and was archived up to {span.end}: the cluster lost the "
            f"records between{again}"
        )
        # What comes next has offsets that the archive knows already, and other records.
        back = seen.latest if place.topic_id else seen.earliest
        known = Span(min(span.start, back), back)
        return Goal(known, Span(back, max(_end(seen), back)), Span(known.start, known.start))
    start = span.end
    if seen.earliest > span.end:
        made.losses.append(
            f"{place} begins at offset {seen.earliest}, and was archived up to {span.end}: the records "
            "between were deleted before they were archived"
        )
        start = seen.earliest
    if seen.from_offset is not None and seen.from_offset > span.end:
        raise OptionError(
            f"The archive has {place} up to offset {span.end}, and --from-time begins at "
            f"{seen.from_offset}: the records between would be missing; leave --from-time out, or archive to "
            "another target."
        )
    down = Span(span.start, span.start)
    if seen.from_offset is not None:
        down = Span(min(max(seen.from_offset, seen.earliest), span.start), span.start)
    up = Span(start, max(_end(seen), start))
    # Without anything to read behind lost records, the position moves past them at once.
    return Goal(span if up.size else Span(span.start, start), up, down)


def _end(seen: Seen) -> int:
    return seen.latest if seen.to_offset is None else min(seen.latest, seen.to_offset)


def _tell_missing(made: Plan, view: View, archived_topics: set[str]) -> None:
    for topic, similar in view.missing.items():
        if topic in archived_topics:
            made.losses.append(
                f"The topic {topic} is not there any more; records that were not archived are lost"
            )
        else:
            also = f"; there is {', '.join(similar)}" if similar else ""
            raise OptionError(f"There is no topic {topic} to archive{also}.")
    for topic in view.gone:
        made.notes.append(f"The topic {topic}, which the pattern matches, is not there any more")


def _tell_vanished(made: Plan, view: View) -> None:
    """Partitions that a topic does not have any more since it was created again with fewer. Told by the run
    that finds the new topic.
    """
    ids = {seen.place.topic: seen.place.topic_id for seen in view.partitions}
    there = {(seen.place.topic, seen.place.partition) for seen in view.partitions}
    continued = {place.topic for place in made.before.spans if ids.get(place.topic) == place.topic_id}
    ends: dict[tuple[str, int], int] = {}
    for place, span in made.others.items():
        one = (place.topic, place.partition)
        # Of an earlier topic, it was told before. Where there are no ids, earlier ones cannot be told apart.
        is_told = place.topic in continued and place.topic_id != ids[place.topic]
        if place.topic in ids and one not in there and not is_told:
            ends[one] = max(span.end, ends.get(one, 0))
    for (topic, partition), end in sorted(ends.items()):
        made.notes.append(
            f"{topic}-{partition} is not there any more, because the topic was created again with fewer "
            f"partitions, or this is another cluster: it was archived up to offset {end}, and records behind "
            "that are lost if there were any and it was deleted"
        )


def _shares(ranges: Ranges, rows: int) -> dict[Place, int]:
    """How much of each, together about ``rows``."""
    numbered = list(ranges)
    begin = {("", number): 0 for number in range(len(numbered))}
    end = {("", number): ranges[place].size for number, place in enumerate(numbered)}
    shared = share(begin, end, rows)
    return {place: shared["", number] for number, place in enumerate(numbered)}
