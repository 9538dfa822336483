"""``tidelog log dump``: what is in a segment's files, for people and for scripts, and whether it is sound.

Owns the printing; :mod:`tidelog.cli.log.segment_files` does the reading. Output is written while files are
read: a segment may hold a million batches.
"""

import json
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli.failure import CommandFailed
from tidelog.cli.log.secret_fields import without_secrets
from tidelog.cli.log.segment_files import BatchRow, IndexRow, Note, Problem, RecordRow, Row, files_in, rows_of
from tidelog.cli.options import Json, flag
from tidelog.cli.tables import count, print_table
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.codecs import Codec
from tidelog.protocol.records import Record

app = typer.Typer(no_args_is_help=True, help="Inspect the files of a broker.")

_ROWS_PER_TABLE = 1000  # a table is laid out as a whole, so long ones come in pieces

_BATCH_COLUMNS = {
    "position": "byte",
    "offsets": "offsets",
    "records": "records",
    "bytes": "bytes",
    "codec": "codec",
    "leader_epoch": "epoch",
    "time": "newest",
    "producer": "producer",
    "kind": "kind",
}
_RECORD_COLUMNS = {"offset": "offset", "time": "time", "key": "key", "value": "value", "headers": "headers"}

Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE|DIR…", help="Segment files, or directories with segment files.", show_default=False
    ),
]
BatchesOnly = Annotated[
    bool, flag("--batches-only", help="One line per batch; do not open the batches (faster).")
]
Values = Annotated[bool, flag("--values", help="Print the contents of records, not only their sizes.")]


@app.callback()
def _group() -> None:
    """Inspect the files of a broker."""


@app.command("dump")
def command(
    paths: Paths, batches_only: BatchesOnly = False, values: Values = False, as_json: Json = False
) -> None:
    """Print the batches and records of log segments, and check them.

    Checks every CRC and compares index files with the log. The exit code is not zero
    if something is damaged. Nothing is changed, and the broker may be running.

    Example: tidelog log dump --values data/orders-0/00000000000000000000.log
    """
    files = files_in(paths)
    damaged: list[str] = []
    for path in files:
        problem = _dump(path, records=not batches_only, values=values, as_json=as_json)
        if problem is not None:
            damaged.append(f"{path}, byte {problem.position}: {problem.sentence}")
    if damaged:
        raise CommandFailed(f"{len(damaged)} of {count(len(files), 'file')} damaged; first in {damaged[0]}.")


def _dump(path: Path, *, records: bool, values: bool, as_json: bool) -> Problem | None:
    """Print one file; the first problem in it."""
    first: Problem | None = None
    printer = None if as_json else _Printer(path, records, values)
    for row in map(_shown, rows_of(path, records=records)):
        if first is None and isinstance(row, Problem):
            first = row
        if printer is None:
            print(json.dumps({"file": str(path), **row_as_json(row, values)}, ensure_ascii=False))
        else:
            printer.add(row)
    if printer is not None:
        printer.finish()
    return first


def _shown(row: Row) -> Row:
    return RecordRow(without_secrets(row.record)) if isinstance(row, RecordRow) else row


# -- for scripts -----------------------------------------------------------------------


def row_as_json(row: Row, values: bool = True) -> dict[str, Any]:
    """One line of ``--json``: ``kind`` says what it is, times are milliseconds, names as in the protocol."""
    match row:
        case BatchRow(position, header):
            return {"kind": "batch", "position": position, **_header_as_json(header)}
        case RecordRow(record):
            return {"kind": "record", **_record_as_json(record, values)}
        case IndexRow(entries):
            return {"kind": "index", "entries": entries}
        case Note(position, sentence):
            return {"kind": "note", "position": position, "message": sentence}
        case Problem(position, sentence):
            return {"kind": "problem", "position": position, "message": sentence}


def _header_as_json(header: BatchHeader) -> dict[str, Any]:
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.count,
        "size": header.size,
        "codec": _codec(header),
        "leader_epoch": header.leader_epoch,
        "magic": header.magic,
        "crc": header.crc,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "delete_horizon_ms": header.delete_horizon_ms,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
    }


def _record_as_json(record: Record, values: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_bytes_as_json("key", record.key),
        "value_size": None if record.value is None else len(record.value),
    }
    if values:
        fields |= _bytes_as_json("value", record.value)
    fields["headers"] = [
        {"key": _readable(name.encode("utf-8", "surrogateescape")), **_bytes_as_json("value", value)}
        for name, value in record.headers
    ]
    return fields


def _bytes_as_json(name: str, data: bytes | None) -> dict[str, str | None]:
    """Text where it is text; ``NAME_base64`` where it is not, so that nothing is lost."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode()}


# -- for people ------------------------------------------------------------------------


class _Printer:
    """Turns rows into lines and tables as they come, a bounded number at a time.

    With records, a batch is a line above the table of its records; without, it is a row in the one table.
    """

    def __init__(self, path: Path, with_records: bool, values: bool) -> None:
        self._with_records = with_records
        self._values = values
        self._is_log = path.suffix == ".log"
        self._batches: list[dict[str, Any]] = []
        self._records: list[dict[str, Any]] = []
        self._batch_count = 0
        self._record_count = 0
        print(path)

    def add(self, row: Row) -> None:
        match row:
            case BatchRow(position, header):
                self._batch_count += 1
                if self._with_records:
                    self._say(_batch_sentence(position, header))
                else:
                    self._add_batch(_batch_line(position, header))
            case RecordRow(record):
                self._record_count += 1
                self._records.append(_record_line(record, self._values))
                if len(self._records) == _ROWS_PER_TABLE:
                    self._flush_records()
            case IndexRow(entries):
                print(f"  {entries} {'entry' if entries == 1 else 'entries'}")
            case Note(position, sentence):
                self._say(f"byte {position}: {sentence}")
            case Problem(position, sentence):
                self._say(f"DAMAGED at byte {position}: {sentence}")

    def _add_batch(self, line: dict[str, Any]) -> None:
        self._batches.append(line)
        if len(self._batches) == _ROWS_PER_TABLE:
            self._flush_batches()

    def finish(self) -> None:
        self._flush_batches()
        self._flush_records()
        if self._is_log:
            noun = "batch" if self._batch_count == 1 else "batches"
            opened = f", {count(self._record_count, 'record')}" if self._with_records else ""
            print(f"  {self._batch_count} {noun}{opened}")

    def _say(self, line: str) -> None:
        self._flush_batches()
        self._flush_records()
        print(f"  {line}")

    def _flush_batches(self) -> None:
        if self._batches:
            print_table(self._batches, _BATCH_COLUMNS, right=("position", "records", "bytes", "leader_epoch"))
            self._batches.clear()

    def _flush_records(self) -> None:
        if self._records:
            print_table(self._records, _RECORD_COLUMNS, right=("offset",))
            self._records.clear()


def _batch_line(position: int, header: BatchHeader) -> dict[str, Any]:
    kinds = [
        word
        for word, holds in (
            ("control", header.is_control),
            ("transactional", header.is_transactional),
            ("delete horizon", header.delete_horizon_ms is not None),
        )
        if holds
    ]
    producer = f"{header.producer_id}/{header.producer_epoch} from {header.base_sequence}"
    return {
        "position": position,
        "offsets": f"{header.base_offset}–{header.last_offset}",
        "records": header.count,
        "bytes": header.size,
        "codec": _codec(header),
        "leader_epoch": header.leader_epoch,
        "time": _time(header.max_timestamp),
        "producer": None if header.producer_id < 0 else producer,
        "kind": kinds,
    }


def _batch_sentence(position: int, header: BatchHeader) -> str:
    line = _batch_line(position, header)
    facts = [count(header.count, "record"), count(header.size, "byte"), line["codec"]]
    facts.append(f"epoch {header.leader_epoch}")
    if line["producer"] is not None:
        facts.append(f"producer {line['producer']}")
    return f"batch {line['offsets']} at byte {position}: {', '.join(facts + line['kind'])}"


def _record_line(record: Record, values: bool) -> dict[str, Any]:
    if record.value is None:
        value = "null"
    elif values:
        value = _readable(record.value)
    else:
        value = count(len(record.value), "byte")
    headers = [
        f"{_readable(name.encode('utf-8', 'surrogateescape'))}={'null' if data is None else _readable(data)}"
        for name, data in record.headers
    ]
    return {
        "offset": record.offset,
        "time": _time(record.timestamp),
        "key": "null" if record.key is None else _readable(record.key),
        "value": value,
        "headers": headers,
    }


def _codec(header: BatchHeader) -> str:
    known = header.codec in Codec.__members__.values()
    return Codec(header.codec).label if known else f"unknown ({header.codec})"


def _time(timestamp_ms: int) -> str:
    """In UTC; a number that is no date stays a number."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(" ", "milliseconds")[:-6] + "Z"
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)


def _readable(data: bytes) -> str:
    """As text where that loses nothing a terminal would show, else as Python writes bytes."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return repr(data)
    return text if text.isprintable() else repr(data)
