"""The events of one round: read from JSON lines or from Parquet, and turned from the one into the other.

Owns the files of a directory. While a round runs, each process appends to its own ``.jsonl`` file. Afterwards
:func:`to_parquet` makes one ``history.parquet`` of them, if pyarrow is installed; otherwise they stay, and
everything reads them all the same. Where there is Parquet, JSON beside it does not count: it is in there.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tidelog.lab.history import Event

PARQUET = "history.parquet"
_TORN = b"tidelog.torn_lines"
_ROWS_PER_BATCH = 50_000
_LONGS = ("time_us", "sequence", "offset", "sent_us", "bytes", "transaction", "cpu_us")
_INTS = ("partition", "broker")


class HistoryDamaged(Exception):
    """A line, other than a last one that was torn, is no event."""


def read_events(directory: Path) -> list[Event]:
    """All events of a directory, each file in its order."""
    parquet = sorted(directory.glob("*.parquet"))
    if parquet:
        return [event for path in parquet for event in _from_parquet(path)]
    return [event for path in sorted(directory.glob("*.jsonl")) for event in read_lines(path)]


def has_pyarrow() -> bool:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        return False
    return True


def to_parquet(directory: Path) -> Path | None:
    """Replace the ``.jsonl`` files of a directory by one Parquet file; None if pyarrow is not installed."""
    lines = sorted(directory.glob("*.jsonl"))
    if not lines or not has_pyarrow():
        return None
    target = directory / PARQUET
    partial = directory / f".{PARQUET}.partial"
    _write_parquet(partial, lines)
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(target)
    # Only now: a crash before leaves the lines as they were, one after leaves both, of which Parquet counts.
    for path in lines:
        path.unlink()
    return target


def read_lines(path: Path) -> Iterator[Event]:
    """The events of one file."""
    decode = msgspec.json.Decoder(Event).decode
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            yield decode(line)
        except msgspec.DecodeError as error:
            if line.startswith(b"{") and not line.rstrip().endswith(b"}"):
                continue  # torn: its writer was killed
            raise HistoryDamaged(f"line {number} of {path} is not an event: {error}") from error


def _torn_lines(path: Path) -> int:
    data = path.read_bytes()
    return sum(line.startswith(b"{") and not line.rstrip().endswith(b"}") for line in data.split(b"\n"))


def _from_parquet(path: Path) -> Iterator[Event]:
    import pyarrow.parquet

    names = Event.__struct_fields__
    file = pyarrow.parquet.ParquetFile(path)
    known = [name for name in names if name in file.schema_arrow.names]
    for batch in file.iter_batches(_ROWS_PER_BATCH, columns=known):
        columns = {name: batch.column(name).to_pylist() for name in known}
        none: list[Any] = [None] * batch.num_rows
        rows = zip(*(columns.get(name, none) for name in names), strict=True)
        for row in rows:
            yield Event(*row)


def _write_parquet(path: Path, lines: list[Path]) -> None:
    import pyarrow
    import pyarrow.parquet

    schema = _schema({_TORN: str(sum(_torn_lines(each) for each in lines)).encode()})
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for each in lines:
            events = list(read_lines(each))
            for start in range(0, len(events), _ROWS_PER_BATCH):
                some = events[start : start + _ROWS_PER_BATCH]
                columns = {name: [getattr(event, name) for event in some] for name in schema.names}
                writer.write_table(pyarrow.table(columns, schema=schema))


def _schema(metadata: dict[bytes, bytes]) -> Any:
    import pyarrow

    def kind(name: str) -> Any:
        if name in _LONGS:
            return pyarrow.int64()
        return pyarrow.int32() if name in _INTS else pyarrow.string()

    return pyarrow.schema([(name, kind(name)) for name in Event.__struct_fields__], metadata)
