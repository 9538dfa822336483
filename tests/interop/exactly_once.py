"""Reads one topic, writes another, exactly once: the work that a test kills again and again.

``python -m interop.exactly_once CLIENT BOOTSTRAP SOURCE TARGET NAME``: takes the records of ``SOURCE`` from
where group ``NAME`` has committed, writes each to ``TARGET`` and commits the offset, ten records per
transaction; every third transaction is aborted at first. Ends with 0 at the end of ``SOURCE``, with 1 when
anything goes wrong: then whoever started it starts it again."""

import contextlib
import sys

from interop import calls
from interop.records import records
from interop.transactional import TRANSACTORS, Transactor, committed_offset, transactor
from interop.wire import ConnectionEnded, Wire

RECORDS_PER_TRANSACTION = 10


def main() -> None:
    client, bootstrap, source, target, name = sys.argv[1:]
    kind = next(each for each in TRANSACTORS if each.name == client)
    with transactor(kind, bootstrap, name) as producer, Wire(bootstrap) as wire:
        # Only now: whatever a predecessor left open is aborted, so its offsets are final.
        position = max(committed_offset(wire, name, source), 0)
        end_offset = calls.end_offset(wire, source)
        while position < end_offset:
            position = work(producer, wire, source, target, name, position)


def work(producer: Transactor, wire: Wire, source: str, target: str, name: str, position: int) -> int:
    found = records(calls.fetch(wire, source, position).records)
    values = [each.value for each in found if each.value is not None and each.offset >= position]
    taken = values[:RECORDS_PER_TRANSACTION]
    following = position + len(taken)
    if (position // RECORDS_PER_TRANSACTION) % 3 == 0:
        transact(producer, source, target, name, taken, following)
        producer.abort()
    transact(producer, source, target, name, taken, following)
    producer.commit()
    return following


def transact(
    producer: Transactor, source: str, target: str, name: str, taken: list[bytes], following: int
) -> None:
    producer.begin()
    producer.send(target, *taken)
    producer.send_offset(name, source, following)


if __name__ == "__main__":
    with contextlib.suppress(ConnectionEnded):
        main()
        sys.exit(0)
    sys.exit(1)
