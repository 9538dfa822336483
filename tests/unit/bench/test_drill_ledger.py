"""The drill's ledger finds everything that can be wrong with an archive, and nothing else."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from bench.drill.ledger import RECORDS, UNDECODABLE, Found, Ledger, Place, Written, compare

COUNT = 12
GOOD = range(0, COUNT, 2)


def value(number: int) -> bytes:
    return json.dumps({"n": number, "f1": 7}).encode() if number in GOOD else b'{"n": 1} and more'


def written(number: int, topic_id: str = "new") -> Written:
    return Written(f"{topic_id}-{number}", value(number), Place("orders", topic_id, 0, number))


def row(record: Written) -> Found:
    assert record.place is not None
    table = RECORDS if record.fields is not None else UNDECODABLE
    return Found(table, record.key, record.value, record.place, record.fields)


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger()
    made.commit(written(number) for number in range(COUNT))
    made.abort([written(COUNT)])
    return made


@pytest.fixture
def rows(ledger: Ledger) -> list[Found]:
    return [row(record) for record in ledger.committed.values()]


def defects(ledger: Ledger, rows: list[Found], covered: dict[tuple[str, int], int] | None = None) -> Any:
    return {name: count for name, count in compare(ledger, rows, covered or {}).defects.items() if count}


def test_a_complete_archive_has_no_defect(ledger: Ledger, rows: list[Found]) -> None:
    verdict = compare(ledger, rows, {})
    assert not any(verdict.defects.values()) and not verdict.examples
    assert (verdict.committed, verdict.archived, verdict.undecodable) == (COUNT, COUNT, COUNT // 2)


def test_without_a_schema_every_record_is_in_one_table(ledger: Ledger, rows: list[Found]) -> None:
    raw = [one._replace(table=RECORDS, fields=None) for one in rows]
    assert not any(compare(ledger, raw, {}, decodes=False).defects.values())
    assert compare(ledger, rows, {}, decodes=False).defects["undecoded"] == COUNT


CHANGES: dict[str, tuple[Callable[[Found], Found], set[str]]] = {
    "another value": (lambda one: one._replace(value=b"{}"), {"changed"}),
    "another offset": (lambda one: one._replace(place=one.place._replace(offset=99)), {"displaced"}),
    "another topic id": (lambda one: one._replace(place=one.place._replace(topic_id="x")), {"displaced"}),
    "the other table": (lambda one: one._replace(table=UNDECODABLE), {"undecoded"}),
    "a lost field": (lambda one: one._replace(fields={"n": 0}), {"undecoded"}),
    "another key": (lambda one: one._replace(key="nobody's"), {"unknown", "missing"}),
    "an aborted record": (lambda one: row(written(COUNT)), {"aborted", "missing"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_row_is_found(name: str, ledger: Ledger, rows: list[Found]) -> None:
    change, expected = CHANGES[name]
    assert defects(ledger, [change(rows[0]), *rows[1:]]) == dict.fromkeys(expected, 1)


def test_a_record_is_missing_or_there_twice(ledger: Ledger, rows: list[Found]) -> None:
    assert defects(ledger, rows[1:]) == {"missing": 1}
    assert defects(ledger, [*rows, rows[0], rows[0]]) == {"doubled": 2}
    # Two records cannot have the same place.
    moved = rows[1]._replace(place=rows[0].place)
    assert defects(ledger, [rows[0], moved, *rows[2:]]) == {"doubled": 1, "displaced": 1}


def test_an_uncertain_record_may_be_there_once(ledger: Ledger, rows: list[Found]) -> None:
    doubtful = written(COUNT + 1)
    ledger.doubt([doubtful._replace(place=None)])
    assert defects(ledger, rows) == {}
    assert defects(ledger, [*rows, row(doubtful)]) == {}
    assert defects(ledger, [*rows, row(doubtful), row(doubtful)]) == {"doubled": 1}


def test_records_of_a_deleted_topic_count_as_far_as_a_finished_run_saw_them(
    ledger: Ledger, rows: list[Found]
) -> None:
    old = [written(number, "old") for number in range(6)]
    ledger.commit(old)
    ledger.deleted.add("old")
    found = [*rows, *map(row, old[:4])]
    verdict = compare(ledger, found, {("old", 0): 4})
    assert not any(verdict.defects.values()) and verdict.not_archived == 2
    assert defects(ledger, found, {("old", 0): 5}) == {"missing": 1}
    assert defects(ledger, [*rows, *map(row, old[1:4])], {("old", 0): 4}) == {"missing": 1}
