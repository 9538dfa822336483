"""What the compaction tests share: settings, a log filled with keys, and a naive second opinion."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.log.cleaner_plan import find_cleanable
from tidelog.log.compaction import Compaction
from tidelog.log.log import Log
from tidelog.log.producers import LastWritten
from tidelog.log.storage import Storage
from tidelog.protocol import batch as batches
from tidelog.protocol.codecs import Codec
from tidelog.protocol.records import Record, decode_batch, encode_batch
from unit.log.log_model import Settings, append


@dataclass(frozen=True)
class CompactSettings(Settings):
    segment_bytes: int = 400
    segment_index_bytes: int = 1200
    index_interval_bytes: int = 100
    cleanup_policy: frozenset[str] = frozenset({"compact"})
    min_compaction_lag_ms: int = 0
    delete_retention_ms: int = 1000
    min_cleanable_dirty_ratio: float = 0.5


COMPACT = CompactSettings()

Pair = tuple[str | None, str | None]
"""A key and a value, as people write them."""


def to_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def write(
    log: Log,
    *pairs: Pair,
    codec: Codec = Codec.NONE,
    timestamp: int = 1000,
    epoch: int = 0,
    now_ms: int = 1000,
) -> list[Record]:
    """Append one batch, as a leader does; its records."""
    base = log.end_offset
    records = [
        Record(base + number, timestamp + number, to_bytes(key), to_bytes(value), (("n", b"%d" % number),))
        for number, (key, value) in enumerate(pairs)
    ]
    append(log, encode_batch(records, codec=codec, leader_epoch=epoch), now_ms)
    return records


def write_each(log: Log, text: str, **options: object) -> None:
    """``"a1 b- roll"``: one batch per word, key and value; ``-`` is a tombstone, ``roll`` ends a segment."""
    for word in text.split():
        if word == "roll":
            log.roll(1000)
        else:
            write(log, (word[0], None if word[1:] == "-" else word[1:]), **options)  # type: ignore[arg-type]


def all_batches(log: Log) -> list[tuple[batches.BatchHeader, list[Record]]]:
    """Every batch, read as a consumer would: from the start, answer by answer."""
    found = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1 << 30, log.end_offset, at_least_one_batch=True).read()
        assert data, f"nothing to read at {offset}, the log ends at {log.end_offset}"
        for position, _ in batches.iterate(data):
            header = batches.check(data, position)
            assert header.next_offset > offset
            found.append((header, list(decode_batch(data[position : position + header.size]))))
            offset = header.next_offset
    return found


def all_records(log: Log) -> list[Record]:
    return [record for _, records in all_batches(log) for record in records]


def short(records: Sequence[Record]) -> str:
    """``"0a1 3b-"``: offset, key, value."""
    words = []
    for record in records:
        key = "?" if record.key is None else record.key.decode()
        words.append(f"{record.offset}{key}{'-' if record.value is None else record.value.decode()}")
    return " ".join(words)


def latest(records: Sequence[Record]) -> dict[bytes, bytes]:
    """What a consumer that reads everything believes at the end."""
    state: dict[bytes, bytes] = {}
    for record in records:
        if record.key is None:
            continue
        if record.value is None:
            state.pop(record.key, None)
        else:
            state[record.key] = record.value
    return state


def begin(
    storage: Storage,
    log: Log,
    settings: CompactSettings = COMPACT,
    *,
    clean_offset: int = 0,
    high_watermark: int | None = None,
    now_ms: int = 10_000,
    keys_max: int = 1000,
    producers: dict[int, LastWritten] | None = None,
) -> Compaction:
    watermark = log.end_offset if high_watermark is None else high_watermark
    cleanable = find_cleanable(
        log, settings, clean_offset=clean_offset, high_watermark=watermark, now_ms=now_ms
    )
    return Compaction(
        storage, log, settings, cleanable, now_ms=now_ms, keys_max=keys_max, last_written=producers
    )


def run(compaction: Compaction, now_ms: int = 10_000) -> Compaction:
    compaction.read_keys()
    while (cleaned := compaction.clean_next()) is not None:
        compaction.swap_in(cleaned, now_ms)
    return compaction


def compact(
    storage: Storage,
    log: Log,
    settings: CompactSettings = COMPACT,
    *,
    clean_offset: int = 0,
    high_watermark: int | None = None,
    now_ms: int = 10_000,
    keys_max: int = 1000,
    producers: dict[int, LastWritten] | None = None,
) -> Compaction:
    """One whole pass, in one go."""
    return run(
        begin(
            storage,
            log,
            settings,
            clean_offset=clean_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
            keys_max=keys_max,
            producers=producers,
        ),
        now_ms,
    )


class NaiveLog:
    """What compaction means, said as simply as possible: lists and dicts, whole batches in memory."""

    def __init__(self, delete_retention_ms: int) -> None:
        self.delete_retention_ms = delete_retention_ms
        self.batches: list[list[Record]] = []
        self.ends: list[int] = []  # Exclusive end offset of each batch, which stays when its records go.
        self.horizons: list[int | None] = []

    def append(self, records: list[Record]) -> None:
        self.batches.append(records)
        self.ends.append(records[-1].offset + 1)
        self.horizons.append(None)

    def compact(self, end_offset: int, now_ms: int) -> None:
        newest = {r.key: r.offset for batch in self.batches for r in batch if r.offset < end_offset}
        for number, batch in enumerate(self.batches):
            if self.ends[number] > end_offset:
                continue
            horizon = self.horizons[number]
            kept = [
                r
                for r in batch
                if r.key is not None
                and newest[r.key] == r.offset
                and (r.value is not None or horizon is None or now_ms < horizon)
            ]
            if horizon is None and any(r.value is None for r in kept):
                self.horizons[number] = now_ms + self.delete_retention_ms
            self.batches[number] = kept

    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in batch]
