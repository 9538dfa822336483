"""The message browser: a window of a partition's records, decoded and filtered.

The newest records are looked for backwards, window by window: what is asked for is there, however much a
filter, compaction or the markers of transactions leave out. Everything is bounded: strangers write records.

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
# Windows of offsets, from the end backwards: they grow while they are cheap.
WINDOW_FIRST, WINDOW_MAX = 16, 8192
WINDOW_BYTES = 16 << 20
HEADERS_SHOWN = 50
HEADER_CHARS = 10_000  # of a name or a value
LISTED_CHARS = 400  # of everything, in the list
INT64_MAX = (1 << 63) - 1
PATIENCE_MS = 3000

RECORD, CONTROL, ABORTED = "record", "control", "aborted"


class Query(NamedTuple):
    topic: str
    partition: int
    begin: str  # newest, oldest, an offset, @ and a time in milliseconds, or < and the offset to end before
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
        fetcher = PartitionFetcher(
            cluster, *place, FetchSettings(max_bytes=FETCH_BYTES, max_wait_ms=0, read_committed=True),
            cluster.patience(),
        )  # fmt: skip
        if query.begin == "newest" or query.begin.startswith("<"):
            following = end if query.begin == "newest" else min(max(int(query.begin[1:]), begin), end)
            rows, start = scan_back(fetcher, query, begin, following, plain)
        else:
            start = min(max(_start(cluster, query, begin, end), begin), end)
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
    if query.begin.startswith("@"):
        place = (query.topic, query.partition)
        found = cluster.list_offsets({place: min(max(int(query.begin[1:]), 0), INT64_MAX)})[place]
        return end if found < 0 else found
    return int(query.begin)


def _scan(
    fetcher: PartitionFetcher, query: Query, start: int, end: int, plain: Plain
) -> tuple[list[dict[str, Any]], int]:
    """Records from ``start`` on, until there are enough, all were looked at, or it took too long."""
    rows: list[dict[str, Any]] = []
    until_s, bytes_left = time.monotonic() + SCAN_S, SCAN_BYTES
    following = start
    for row, following, size in _records(fetcher, query, start, end, plain):
        bytes_left -= size
        if row is not None:
            rows.append(row)
        if len(rows) >= query.limit or time.monotonic() > until_s or bytes_left < 0:
            return rows, following
    return rows, end


def scan_back(
    fetcher: PartitionFetcher, query: Query, begin: int, end: int, plain: Plain
) -> tuple[list[dict[str, Any]], int]:
    """The last records before ``end``, and from which offset on all were looked at."""
    rows: list[dict[str, Any]] = []
    until_s, window, start = time.monotonic() + SCAN_S, WINDOW_FIRST, end
    while start > begin and len(rows) < query.limit and time.monotonic() < until_s:
        first = max(start - window, begin)
        found = _window(fetcher, query, first, start, plain)
        if found is None:  # Large records: fewer of them at once.
            window = max(window // 8, 1)
            continue
        rows = found + rows
        start, window = first, min(window * 2, WINDOW_MAX)
    if len(rows) > query.limit:
        rows = rows[-query.limit :]
        start = int(rows[0]["offset"])
    return rows, start


def _window(
    fetcher: PartitionFetcher, query: Query, start: int, end: int, plain: Plain
) -> list[dict[str, Any]] | None:
    """All records of a window that are to be shown; None: too many bytes, and more than one record."""
    rows = []
    bytes_left = WINDOW_BYTES
    for row, _, size in _records(fetcher, query, start, end, plain):
        bytes_left -= size
        if bytes_left < 0 and end - start > 1:
            return None
        if row is not None:
            rows.append(row)
    return rows


def _records(
    fetcher: PartitionFetcher, query: Query, start: int, end: int, plain: Plain
) -> Iterator[tuple[dict[str, Any] | None, int, int]]:
    """Each record from ``start`` to ``end`` (None: it is not shown), the offset behind it, and how many bytes
    were read for it.
    """
    matches = matcher(query.match, plain)
    cursor = Cursor()
    position = start
    while position < end:
        fetcher.ask(position)
        fetched = fetcher.take()
        cursor.told(fetched.aborted)
        before, size = position, len(fetched.records)
        for row, following in rows_of(fetched, position, cursor, query, matches, plain):
            position = following
            yield (row if row is None or row["offset"] < end else None), min(following, end), size
            size = 0
            if position >= end:
                return
        if position == before:
            return  # Nothing is left below the end: a gap that compaction made.


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
    chars = FULL_CHARS if whole else LISTED_CHARS
    row: dict[str, Any] = {
        "offset": record.offset,
        "time": record.timestamp,
        "kind": kind,
        "codec": Codec(header.codec).name.lower(),
        "epoch": header.leader_epoch,
        "producer": header.producer_id,
        "transactional": header.is_transactional,
        "headers": [
            [_header_name(name, min(chars, HEADER_CHARS)), decoded(value, min(chars, HEADER_CHARS))]
            for name, value in record.headers[:HEADERS_SHOWN]
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


def _header_name(name: str, chars: int) -> str:
    text = name.encode("utf-8", "surrogateescape").decode(errors="replace")
    return visible(text[:chars]) + ("…" if len(text) > chars else "")


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
