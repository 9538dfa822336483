"""What Delta's log says of an archive: its mark and its columns.

The mark of a commit is a set of *transaction actions*, Delta's own means for programs that must not add
anything twice. They are part of the commit, and every checkpoint and clean-up of the log keeps the latest of
each name:

==================================  =======================================================================
``tidelog/attempt``                 names the files of the commit; two commits that set it conflict
``tidelog/undecodable-files``       see :mod:`tidelog.spark.pipelines.tables.two_tables`
``tidelog/rows``                    all rows that steps have added, of both tables
``tidelog/start/TOPIC/ID/N``        the first offset of partition N that the table has
``tidelog/end/TOPIC/ID/N``          the next offset to add
==================================  =======================================================================

A transaction action is found by its name only, so the table's property ``tidelog.topics`` lists the topics.
It is set before the first commit with records of a topic.
"""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable as Delta

from tidelog.spark.pipelines.tables import Place, Position, Span, TableError
from tidelog.spark.pipelines.tables.two_tables import UNKNOWN, Mark

TOPICS = "tidelog.topics"
ATTEMPT, APART, ROWS = "tidelog/attempt", "tidelog/undecodable-files", "tidelog/rows"
REMOVED = -1  # As the end of a place that a position does not have any more: an action stays forever.


def read_mark(table: Delta) -> Mark:
    attempt = table.transaction_version(ATTEMPT)
    if attempt is None:
        return Mark()
    spans = {}
    for topic, topic_id, partitions in _known_topics(table):
        for place in (Place(topic, topic_id, number) for number in range(partitions)):
            end = table.transaction_version(_name("end", place))
            if end is not None and end != REMOVED:
                spans[place] = Span(table.transaction_version(_name("start", place)) or 0, end)
    rows = table.transaction_version(ROWS)
    apart = table.transaction_version(APART) or 0
    return Mark(Position(spans), attempt, apart, UNKNOWN if rows is None else rows)


def said(mark: Mark, before: Mark) -> Iterator[tuple[str, int]]:
    """The transaction actions that change one mark into the other."""
    yield ATTEMPT, mark.attempt
    yield APART, mark.apart
    if mark.rows != UNKNOWN:
        yield ROWS, mark.rows
    for place, span in mark.position.spans.items():
        known = before.position.spans.get(place)
        if known is None or known.start != span.start:
            yield _name("start", place), span.start
        if known is None or known.end != span.end:
            yield _name("end", place), span.end
    for place in before.position.spans.keys() - mark.position.spans.keys():
        yield _name("end", place), REMOVED


def _name(what: str, place: Place) -> str:
    return f"tidelog/{what}/{place.topic}/{place.topic_id}/{place.partition}"


def _known_topics(table: Delta) -> list[list[Any]]:
    """Topic, id and number of partitions of each."""
    found: list[list[Any]] = json.loads(table.metadata().configuration.get(TOPICS, "[]"))
    return found


def list_topics(position: Position, table: Delta) -> None:
    topics = _topics(position, table)
    if topics != _known_topics(table):
        table.alter.set_table_properties({TOPICS: json.dumps(topics)}, raise_if_not_exists=False)


def _topics(position: Position, table: Delta) -> list[list[Any]]:
    """With those of the position."""
    counts = {(topic, topic_id): count for topic, topic_id, count in _known_topics(table)}
    for place in position.spans:
        key = (place.topic, place.topic_id)
        counts[key] = max(counts.get(key, 0), place.partition + 1)
    return [[*key, count] for key, count in sorted(counts.items())]


def lacks_fields(known: Any, added: Any, where: str, path: str) -> bool:
    """Whether the table lacks fields of this schema or struct. Delta changes no types, and deltalake would
    take another one without a word.
    """
    kinds = {one.name: one.type for one in known}
    missing = [one for one in added if one.name not in kinds]
    present = [one for one in added if one.name in kinds]
    lacking = [_lacks(kinds[one.name], one.type, f"{where}{one.name}", path) for one in present]
    return bool(missing) or any(lacking)


def _lacks(known: pa.DataType, added: pa.DataType, where: str, path: str) -> bool:
    if pa.types.is_struct(known) and pa.types.is_struct(added):
        return lacks_fields(known, added, f"{where}.", path)
    if pa.types.is_list(known) and pa.types.is_list(added):
        return _lacks(known.value_type, added.value_type, f"{where}[]", path)
    if pa.types.is_map(known) and pa.types.is_map(added):
        values = _lacks(known.item_type, added.item_type, f"{where}{{}}", path)
        return _lacks(known.key_type, added.key_type, f"{where}{{}}", path) or values
    if known != added:
        raise TableError(
            f"{path} cannot take records of this schema: {where} is {known} in the table and {added} in new "
            "records, and Delta keeps the type of a column; give the field another name, or archive to a new "
            "target."
        )
    return False
