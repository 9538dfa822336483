"""What was written, what became of it, and whether a table has exactly that.

Pure, and independent of what it judges: it knows no broker, no Spark and none of Tidelog's code. Every record
has a key that no other record has.

=========== ====================================================================================
committed   acknowledged, and its transaction committed if it has one: once in the table, as it is
aborted     its transaction was aborted: never in the table
uncertain   neither was confirmed: at most once in the table
=========== ====================================================================================

Records of a topic that was deleted must be in the table if a run that finished had to read them: their
offsets are below the end of the partition when that run began. The others could not be archived any more.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

EXAMPLES_MAX = 5  # Of each finding.
RECORDS, UNDECODABLE = "records", "undecodable"


class Place(NamedTuple):
    topic: str
    topic_id: str
    partition: int
    offset: int


class Written(NamedTuple):
    """One record that a producer sent."""

    key: str
    value: bytes
    place: Place | None  # None: not acknowledged.

    @property
    def fields(self) -> dict[str, Any] | None:
        """None: undecodable."""
        return fields_of(self.value)


class Found(NamedTuple):
    """One row of the archive."""

    table: str
    key: str
    value: bytes
    place: Place
    fields: dict[str, Any] | None  # The decoded value, without nulls.


# By topic id and partition: where the partition ended when a run began that finished.
Covered = Mapping[tuple[str, int], int]


def fields_of(value: bytes) -> dict[str, Any] | None:
    """What the archive's schema makes of a value: a JSON object whose ``n`` is a number."""
    try:
        found = json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("n"), int) else None


class Ledger:
    """Filled by producers' threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.committed: dict[str, Written] = {}  # By key, as the others.
        self.aborted: dict[str, Written] = {}
        self.uncertain: dict[str, Written] = {}
        self.deleted: set[str] = set()  # Ids of topics.

    def commit(self, records: Iterable[Written]) -> None:
        self._add(self.committed, records)

    def abort(self, records: Iterable[Written]) -> None:
        self._add(self.aborted, records)

    def doubt(self, records: Iterable[Written]) -> None:
        self._add(self.uncertain, records)

    def _add(self, to: dict[str, Written], records: Iterable[Written]) -> None:
        with self._lock:
            to.update({one.key: one for one in records})

    def to_json(self) -> dict[str, Any]:
        def lines(records: Mapping[str, Written]) -> list[Any]:
            return [[one.key, one.value.decode(errors="replace"), one.place] for one in records.values()]

        return {
            "committed": lines(self.committed),
            "aborted": lines(self.aborted),
            "uncertain": lines(self.uncertain),
            "deleted": sorted(self.deleted),
        }


@dataclass(slots=True)
class Verdict:
    """Every number but the first five is a defect."""

    committed: int = 0
    archived: int = 0
    undecodable: int = 0  # Of the archived ones.
    not_archived: int = 0  # The topic was deleted before they could be.
    uncertain: int = 0
    missing: int = 0
    doubled: int = 0
    aborted: int = 0  # In the table, though their transaction was aborted.
    unknown: int = 0  # In the table, and never written.
    displaced: int = 0  # At another topic, partition or offset than the acknowledged one.
    changed: int = 0  # Another value.
    undecoded: int = 0  # In the wrong one of the two tables, or with other fields than were written.
    examples: list[str] = field(default_factory=list)

    def tell(self, finding: str, text: str) -> None:
        setattr(self, finding, getattr(self, finding) + 1)
        if getattr(self, finding) <= EXAMPLES_MAX:
            self.examples.append(f"{finding}: {text}")

    @property
    def defects(self) -> dict[str, int]:
        names = ("missing", "doubled", "aborted", "unknown", "displaced", "changed", "undecoded")
        return {name: getattr(self, name) for name in names}


def compare(ledger: Ledger, rows: Iterable[Found], covered: Covered, *, decodes: bool = True) -> Verdict:
    """Judge every record that was written and every row that was found. ``decodes``: the archive has a
    schema.
    """
    found = list(rows)
    verdict = Verdict(len(ledger.committed), len(found))
    _judge_counts(found, verdict)
    for row in found:
        _judge_row(ledger, row, verdict, decodes)
    keys = {row.key for row in found}
    for key, written in ledger.committed.items():
        if key not in keys:
            _judge_absence(ledger, written, covered, verdict)
    verdict.undecodable = sum(row.table == UNDECODABLE for row in found)
    verdict.uncertain = len(ledger.uncertain)
    return verdict


def _judge_counts(found: list[Found], verdict: Verdict) -> None:
    keys = Counter(row.key for row in found)
    doubled = {key for key, count in keys.items() if count > 1}
    for key in doubled:
        for _ in range(keys[key] - 1):
            verdict.tell("doubled", f"{key} is there {keys[key]} times")
    places = Counter(row.place for row in found if row.key not in doubled)
    for place, count in places.items():
        for _ in range(count - 1):
            verdict.tell("doubled", f"{place} is there {count} times")


def _judge_row(ledger: Ledger, row: Found, verdict: Verdict, decodes: bool) -> None:
    if row.key in ledger.aborted:
        verdict.tell("aborted", f"{row.key} at {row.place}")
        return
    written = ledger.committed.get(row.key) or ledger.uncertain.get(row.key)
    if written is None:
        verdict.tell("unknown", f"{row.key} at {row.place}")
        return
    if written.place is not None and written.place != row.place:
        verdict.tell("displaced", f"{row.key} at {row.place} instead of {written.place}")
    if written.value != row.value:
        verdict.tell("changed", f"{row.key} has {row.value!r} instead of {written.value!r}")
    fields = written.fields if decodes else None
    expected = RECORDS if fields is not None or not decodes else UNDECODABLE
    if row.table != expected:
        verdict.tell("undecoded", f"{row.key} is in {row.table} instead of {expected}")
    elif row.fields != fields:
        verdict.tell("undecoded", f"{row.key} has {row.fields} instead of {fields}")


def _judge_absence(ledger: Ledger, written: Written, covered: Covered, verdict: Verdict) -> None:
    place = written.place
    if place is not None and place.topic_id in ledger.deleted and not _is_covered(place, covered):
        verdict.not_archived += 1
    else:
        verdict.tell("missing", f"{written.key} at {place}")


def _is_covered(place: Place, covered: Covered) -> bool:
    return place.offset < covered.get((place.topic_id, place.partition), 0)
