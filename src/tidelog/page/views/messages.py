"""The message browser: a window of a partition's records, decoded and filtered.

Reads as any consumer does, from the leader or, while a primary is down, from the backup that serves readers.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tidelog.client.cluster import Cluster
from tidelog.client.fetching import FetchSettings, PartitionFetcher
from tidelog.client.messages import EARLIEST, LATEST, FetchedPartition
from tidelog.client.settings import ClientSettings
from tidelog.errors import CorruptBatch
from tidelog.page.asking import connecting
from tidelog.page.asking.link import Address
from tidelog.page.views.payload import FULL_CHARS, Plain, decoded, visible, with_schema, without_schema
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.codecs import Codec
from tidelog.protocol.records import ControlType, Record, control_type, decode_batch

LIMIT_MAX = 200
SCAN_S = 2.0  # How long one request may look for records that match.
SCAN_BYTES = 64 << 20
FETCH_BYTES = 1 << 20
HEADERS_SHOWN = 50
PATIENCE_MS = 3000

RECORD, CONTROL, ABORTED = "record", "control", "aborted"


class Query(NamedTuple):
    topic: str
    partition: int
    begin: str  # newest, oldest, an offset, or @ and a time in milliseconds
    limit: int = 50
    match: str = ""  # a text that key or value contain, or a field of JSON: ``customer.id=42``
    hidden: bool = False  # also control records, and records of aborted transactions
    whole: bool = False  # values in full length


class Cursor:
    """Which batches belong to aborted transactions, as the broker and the markers tell."""

    def __init__(self) -> None:
        self._pending: list[tuple[int, int]] = []  # (first offset, producer), not begun yet
        self._open: set[int] = set()

    def told(self, aborted: list[tuple[int, int]]) -> None:
        """(producer id, first offset) of the transactions that ended in an abort."""
        self._pending = sorted({*self._pending, *((first, producer) for producer, first in aborted)})

    def is_aborted(self, header: BatchHeader, marker: ControlType | int | None) -> bool:
        while self._pending and self._pending[0][0] <= header.last_offset:
            self._open.add(self._pending.pop(0)[1])
        if marker == ControlType.ABORT:
            self._open.discard(header.producer_id)
        return header.is_transactional and not header.is_control and header.producer_id in self._open


def browse(bootstrap: tuple[Address, ...], query: Query, plain: Plain = without_schema) -> dict[str, Any]:
    """Rows, and where to go on. Raises the client's errors. ``plain`` decodes values that have a schema."""
    tls, sasl = connecting.security()
    settings = ClientSettings(
        bootstrap, client_id="tidelog-page", tls=tls, sasl=sasl, request_timeout_ms=PATIENCE_MS
    )
    with Cluster(settings, PATIENCE_MS) as cluster:
        place = (query.topic, query.partition)
        begin = cluster.list_offsets({place: EARLIEST})[place]
        end = cluster.list_offsets({place: LATEST}, read_committed=True)[place]
        start = min(max(_start(cluster, query, begin, end), begin), end)
        fetcher = PartitionFetcher(
            cluster, *place, FetchSettings(max_bytes=FETCH_BYTES, max_wait_ms=0, read_committed=True),
            cluster.patience(),
        )  # fmt: skip
        rows, following = _scan(fetcher, query, start, end, plain)
    return {
        "begin": begin,
        "end": end,
        "start": start,
        "next": following,
        "looked_at": following - start,
        "rows": rows,
    }


def _start(cluster: Cluster, query: Query, begin: int, end: int) -> int:
    if query.begin == "oldest":
        return begin
    if query.begin == "newest":
        return end - query.limit
    if query.begin.startswith("@"):
        place = (query.topic, query.partition)
        found = cluster.list_offsets({place: int(query.begin[1:])})[place]
        return end if found < 0 else found
    return int(query.begin)


def _scan(
    fetcher: PartitionFetcher, query: Query, start: int, end: int, plain: Plain
) -> tuple[list[dict[str, Any]], int]:
    """Records from ``start`` on, until there are enough, all were looked at, or it took too long."""
    rows: list[dict[str, Any]] = []
    matches = matcher(query.match, plain)
    cursor = Cursor()
    position, scanned, until_s = start, 0, time.monotonic() + SCAN_S
    while position < end and len(rows) < query.limit:
        if time.monotonic() > until_s or scanned > SCAN_BYTES:
            break
        fetcher.ask(position)
        fetched = fetcher.take()
        scanned += len(fetched.records)
        cursor.told(fetched.aborted)
        before = position
        for row, following in rows_of(fetched, position, cursor, query, matches, plain):
            position = following
            if row is not None:
                rows.append(row)
                if len(rows) >= query.limit:
                    break
        if position == before:
            break  # Nothing is left below the end: a gap that compaction made.
    return rows, max(position, start) if len(rows) >= query.limit or position < end else end


def rows_of(
    fetched: FetchedPartition,
    start: int,
    cursor: Cursor,
    query: Query,
    matches: Callable[[Record], bool],
    plain: Plain = without_schema,
) -> Iterator[tuple[dict[str, Any] | None, int]]:
    """Each record from ``start`` on (None: it is not shown), and the offset behind it."""
    data = fetched.records
    for position, header in batches.iterate(data):
        if header.next_offset <= start:
            continue
        body = bytes(data[position : position + header.size])
        try:
            records = list(decode_batch(body))
        except CorruptBatch as error:
            yield _damaged(header, str(error)), header.next_offset
            continue
        marker = control_type(records[0].key) if header.is_control and records else None
        is_aborted = cursor.is_aborted(header, marker)
        kind = CONTROL if header.is_control else ABORTED if is_aborted else RECORD
        for record in records:
            if record.offset < start:
                continue
            shown = (kind == RECORD or query.hidden) and (kind == CONTROL or matches(record))
            row = _row(record, header, kind, marker, plain, whole=query.whole) if shown else None
            yield row, record.offset + 1
        yield None, header.next_offset


def _row(
    record: Record,
    header: BatchHeader,
    kind: str,
    marker: ControlType | int | None,
    plain: Plain,
    *,
    whole: bool,
) -> dict[str, Any]:
    chars = FULL_CHARS if whole else 400
    row: dict[str, Any] = {
        "offset": record.offset,
        "time": record.timestamp,
        "kind": kind,
        "codec": Codec(header.codec).name.lower(),
        "epoch": header.leader_epoch,
        "producer": header.producer_id,
        "transactional": header.is_transactional,
        "headers": [
            [visible(key.encode("utf-8", "surrogateescape").decode(errors="replace")), decoded(value, chars)]
            for key, value in record.headers[:HEADERS_SHOWN]
        ],
        "headers_cut": max(len(record.headers) - HEADERS_SHOWN, 0),
    }
    if kind == CONTROL:
        name = marker.name if isinstance(marker, ControlType) else f"TYPE_{marker}"
        return row | {"marker": name.lower().replace("_", " "), "key": decoded(None), "value": decoded(None)}
    return row | {
        "key": with_schema(record.key, plain, chars),
        "value": with_schema(record.value, plain, chars),
    }


def _damaged(header: BatchHeader, reason: str) -> dict[str, Any]:
    return {
        "offset": header.base_offset, "time": header.max_timestamp, "kind": "damaged", "reason": reason,
        "headers": [], "headers_cut": 0, "key": decoded(None), "value": decoded(None),
    }  # fmt: skip


# --- filters ------------------------------------------------------------------------------------------------

_FIELD = re.compile(r"^([A-Za-z_][\w.\-]*)=(.*)$", re.DOTALL)


def matcher(text: str, plain: Plain = without_schema) -> Callable[[Record], bool]:
    """Whether a record is what a person looks for: ``key:TEXT``, ``field.of.json=VALUE``, or any text."""
    if not text:
        return lambda record: True
    if text.startswith("key:"):
        wanted_key = text[4:].encode()
        return lambda record: record.key is not None and wanted_key in record.key
    found = _FIELD.match(text)
    if found is not None:
        path, wanted = found.group(1).split("."), found.group(2)
        return lambda record: _field(_text_of(record.value, plain), path) == wanted
    wanted_bytes = text.encode()
    return lambda record: any(
        part is not None and wanted_bytes in part
        for part in (record.key, record.value, _text_of(record.value, plain))
    )


def _text_of(value: bytes | None, plain: Plain) -> bytes | None:
    found = plain(value)
    return value if found is None else found[1]


def _field(value: bytes | None, path: list[str]) -> str | None:
    """A field of a JSON object as text; None: there is none."""
    try:
        found = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    for name in path:
        if not isinstance(found, dict) or name not in found:
            return None
        found = found[name]
    return found if isinstance(found, str) else json.dumps(found)
