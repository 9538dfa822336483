"""A broker that lies, for tests of the instrument: ``python lying_broker.py LIE --config FILE``.

Owns the lies. Each replaces one method of the broker in its own process, and nothing else does: the product
has no switch for it.
"""

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crc32c

from tidelog.broker.partitions.partition import Appended, Partition
from tidelog.cli import main
from tidelog.errors import ErrorCode

TOPIC = "records"
EVERY = 20  # batches: how often a record is repeated or swapped
CRC_AT, CRC_FROM = 17, 21
_append = Partition.append


def acknowledges() -> None:
    """Without waiting for copies."""

    def when_acknowledged(
        self: Partition, end_offset: int, acks: int, timeout_ms: int, done: Callable[[ErrorCode], None]
    ) -> None:
        done(ErrorCode.NONE)

    Partition.when_acknowledged = when_acknowledged  # type: ignore[method-assign]


def forgets() -> None:
    """The second half of each segment, at every start."""
    config = tomllib.loads(Path(sys.argv[sys.argv.index("--config") + 1]).read_text())
    for segment in Path(config["log.dirs"]).glob(f"{TOPIC}-*/*.log"):
        with segment.open("r+b") as file:
            file.truncate(segment.stat().st_size // 2)


def serves_uncommitted() -> None:
    end = property(lambda self: self.log.end_offset)
    Partition.readable_end_offset = end  # type: ignore[assignment]
    Partition.last_stable_offset = end  # type: ignore[assignment]


def repeats() -> None:
    """Some batches are written twice."""
    seen = [0]

    def append(self: Partition, records: memoryview, *rest: Any, **more: Any) -> Appended:
        seen[0] += self.name.topic == TOPIC
        copy = bytearray(records)
        first = _append(self, records, *rest, **more)
        if self.name.topic == TOPIC and seen[0] % EVERY == 0:
            _append(self, memoryview(copy), *rest, **more)
        return first

    Partition.append = append  # type: ignore[method-assign]


def reorders() -> None:
    """Two records of a batch change places."""

    def append(self: Partition, records: memoryview, *rest: Any, **more: Any) -> Appended:
        if self.name.topic == TOPIC:
            records = memoryview(swapped(bytearray(records)))
        return _append(self, records, *rest, **more)

    Partition.append = append  # type: ignore[method-assign]


def swapped(batch: bytearray) -> bytearray:
    found = list(re.finditer(rb"producer-\d-\d/(\d+)/", bytes(batch)))
    for one, other in zip(found[::2], found[1::2], strict=False):
        if len(one[0]) == len(other[0]) and int(one[1]) % EVERY == 0:
            batch[slice(*one.span())], batch[slice(*other.span())] = other[0], one[0]
    return with_checksum(batch)


def with_checksum(batch: bytearray) -> bytearray:
    batch[CRC_AT:CRC_FROM] = crc32c.crc32c(bytes(batch[CRC_FROM:])).to_bytes(4, "big")
    return batch


def damages() -> None:
    """A byte of some records changes, and the checksum with it."""

    def append(self: Partition, records: memoryview, *rest: Any, **more: Any) -> Appended:
        if self.name.topic == TOPIC:
            changed = re.sub(rb"(producer-\d-\d/\d*0/)x", rb"\1y", bytes(records))
            records = memoryview(with_checksum(bytearray(changed)))
        return _append(self, records, *rest, **more)

    Partition.append = append  # type: ignore[method-assign]


LIES: dict[str, Callable[[], None]] = {
    "acknowledges": acknowledges,
    "forgets": forgets,
    "serves uncommitted": serves_uncommitted,
    "repeats": repeats,
    "reorders": reorders,
    "damages": damages,
    "none": lambda: None,
}

if __name__ == "__main__":
    LIES[sys.argv.pop(1)]()
    sys.argv[1:1] = ["broker"]
    main()
