"""Where ``tidelog group reset-offsets`` moves a group to: worked out first, shown, and only then done."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.cli.client import REQUEST_TIMEOUT_S, admin_library, wait
from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.group import admin as group_admin
from tidelog.cli.group.admin import Place
from tidelog.cli.records.text import offset_or_time, parse_instant

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


class Target(NamedTuple):
    """Exactly one of them is given."""

    earliest: bool = False
    latest: bool = False
    timestamp: str | None = None
    offset: int | None = None
    shift: int | None = None


class Bounds(NamedTuple):
    """What there is of a partition: ``start_offset <= offset <= end_offset`` can be committed."""

    start_offset: int
    end_offset: int

    def clamp(self, offset: int) -> int:
        return min(max(offset, self.start_offset), self.end_offset)


def check(target: Target) -> None:
    given = [value for value in target if value is not None and value is not False]
    if len(given) != 1:
        raise InvalidCommandLine(
            "Pass exactly one of --to-earliest, --to-latest, --to-timestamp, --to-offset and --shift-by."
        )
    if target.timestamp is not None:
        parse_time(target.timestamp)


def parse_time(text: str) -> int:
    """Milliseconds since 1970, given as ``@1700000000000`` or as an ISO time."""
    try:
        return max(offset_or_time(text[1:]), 0) if text.startswith("@") else parse_instant(text)
    except ValueError:
        raise InvalidCommandLine(
            "--to-timestamp takes an ISO time (2026-01-31T12:00) or milliseconds (@1700000000000), "
            f"not '{text}'."
        ) from None


def parse_topic(text: str) -> tuple[str, list[int] | None]:
    """``orders`` or ``orders:0,2``: a topic and which of its partitions; None for all."""
    name, colon, numbers = text.partition(":")
    if not colon:
        return name, None
    try:
        return name, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise InvalidCommandLine(f"--topic takes TOPIC or TOPIC:0,2,…, not '{text}'.") from None


def plan(admin: "AdminClient", group: str, topics: Sequence[str], target: Target) -> list[dict[str, Any]]:
    """One row per partition: what is committed now, and what would be."""
    committed = group_admin.committed_offsets(admin, group)
    places = _places(admin, topics) if topics else sorted(committed)
    if not places:
        raise CommandFailed(f"Group '{group}' has no committed offsets; name topics with --topic.")
    bounds = _bounds(admin, places)
    wanted = _wanted(admin, places, committed, bounds, target)
    return [
        {
            "topic": place[0],
            "partition": place[1],
            "committed": committed.get(place),
            "new": bounds[place].clamp(wanted[place]),
            "change": None
            if place not in committed
            else bounds[place].clamp(wanted[place]) - committed[place],
            "end_offset": bounds[place].end_offset,
        }
        for place in places
    ]


def execute(admin: "AdminClient", group: str, rows: Iterable[Mapping[str, Any]]) -> None:
    members = group_admin.members_of(admin, group)
    if members:
        # A member would go on from where it is, and overwrite the new offset with its next commit.
        raise CommandFailed(f"Group '{group}' has members ({members}); stop them first.")
    group_admin.commit(admin, group, {(row["topic"], row["partition"]): row["new"] for row in rows})


def _places(admin: "AdminClient", topics: Sequence[str]) -> list[Place]:
    places: dict[Place, None] = {}
    for text in topics:
        name, wanted = parse_topic(text)
        existing = _partitions(admin, name)
        for partition in sorted(existing if wanted is None else wanted):
            if partition not in existing:
                raise CommandFailed(f"Topic '{name}' has no partition {partition}.")
            places[name, partition] = None
    return sorted(places)


def _partitions(admin: "AdminClient", topic: str) -> set[int]:
    """By the administrative request, which does not create the topic for asking."""
    from confluent_kafka import TopicCollection

    asked = admin.describe_topics(TopicCollection([topic]), request_timeout=REQUEST_TIMEOUT_S)
    return {partition.id for partition in wait(asked[topic], topic).partitions}


def _bounds(admin: "AdminClient", places: Sequence[Place]) -> dict[Place, Bounds]:
    specs = admin_library().OffsetSpec
    starts = group_admin.offsets_at(admin, places, specs.earliest())
    ends = group_admin.offsets_at(admin, places, specs.latest())
    for topic, partition in places:
        if (topic, partition) not in starts or (topic, partition) not in ends:
            raise CommandFailed(f"{topic}-{partition} has no leader; try again later.")
    return {place: Bounds(starts[place], ends[place]) for place in places}


def _wanted(
    admin: "AdminClient",
    places: Sequence[Place],
    committed: Mapping[Place, int],
    bounds: Mapping[Place, Bounds],
    target: Target,
) -> dict[Place, int]:
    if target.earliest:
        return {place: bounds[place].start_offset for place in places}
    if target.latest:
        return {place: bounds[place].end_offset for place in places}
    if target.offset is not None:
        return dict.fromkeys(places, target.offset)
    if target.shift is not None:
        missing = [place for place in places if place not in committed]
        if missing:
            topic, partition = missing[0]
            raise CommandFailed(f"{topic}-{partition} has no committed offset to shift.")
        return {place: committed[place] + target.shift for place in places}
    spec = admin_library().OffsetSpec.for_timestamp(parse_time(target.timestamp or ""))
    found = group_admin.offsets_at(admin, places, spec)
    # Negative: nothing is as young as that, so there is nothing left to read.
    return {
        place: found[place] if found.get(place, -1) >= 0 else bounds[place].end_offset for place in places
    }
