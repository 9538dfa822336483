"""Small batches that are appended together leave the same log as each of them alone would."""

import random

import pytest

from tidelog.errors import CorruptBatch
from tidelog.log import appending
from tidelog.log.log import Log
from tidelog.log.plain_run import PlainRun, plain_run
from tidelog.protocol import batch as batches
from tidelog.sim.disk import SimulatedDisk
from unit.log.log_model import ONE_SEGMENT, SMALL, Settings, contents, make_batch, open_log


def run_of(data: bytes, next_offset: int = 0, epoch: int = 0) -> PlainRun | None:
    return plain_run(memoryview(data), next_offset, epoch, 0, 0, 150, -1, 0)


def joined(*made: bytearray) -> bytes:
    return b"".join(bytes(batch) for batch in made)


def state(log: Log) -> tuple[object, ...]:
    indexes = log.segments[-1].indexes
    return (
        log.end_offset, log.size_bytes, log.epochs.entries, indexes.max_timestamp,
        indexes.max_timestamp_offset, indexes.indexed_position, contents(log),
    )  # fmt: skip


def files(disk: SimulatedDisk) -> dict[str, bytes]:
    found = {}
    for entry in disk.list("t-0"):
        file = disk.open(f"t-0/{entry.name}")
        found[entry.name] = bytes(file.read_at(0, file.size()))
    return found


def answers(seed: int) -> list[bytes]:
    """What a leader might send: mostly plain batches, in answers of one to thirty."""
    chance = random.Random(seed)
    made, offset, epoch = [], 0, 0
    for _ in range(40):
        batch_bytes = b""
        for _ in range(chance.randint(1, 30)):
            epoch += chance.random() < 0.01
            offset += 3 if chance.random() < 0.005 else 0
            count = chance.randint(1, 4)
            timestamp = 1000 + chance.randint(-5, 10)
            payload = b"x" * chance.randint(0, 60)
            batch_bytes += bytes(make_batch(offset, payload, count=count, timestamp=timestamp, epoch=epoch))
            offset += count
        made.append(batch_bytes)
    return made


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("settings", [SMALL, ONE_SEGMENT])
def test_the_log_is_the_same_as_batch_by_batch(
    seed: int, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, alone = SimulatedDisk(), SimulatedDisk()
    first, second = open_log(together, settings), open_log(alone, settings)
    taken: list[PlainRun] = []

    def noting(*arguments: object) -> PlainRun | None:
        run = plain_run(*arguments)  # type: ignore[arg-type]
        if run is not None:
            taken.append(run)
        return run

    for data in answers(seed):
        monkeypatch.setattr(appending, "plain_run", noting)
        first.append_batches(memoryview(data), 1000)
        monkeypatch.setattr(appending, "plain_run", lambda *_: None)
        second.append_batches(memoryview(data), 1000)
    assert state(first) == state(second)
    assert taken
    first.close()
    second.close()
    assert files(together) == files(alone)


def test_many_batches_are_one_run() -> None:
    data = joined(*(make_batch(offset, timestamp=1000 + offset % 3) for offset in range(5)))
    run = run_of(data)
    assert run is not None
    assert (run.next_offset, run.last_base_offset, run.last_position) == (5, 4, 400)
    assert (run.highest_timestamp, run.max_timestamp, run.max_timestamp_offset) == (1002, 1002, 2)
    assert [(entry.last_offset, entry.position) for entry in run.entries] == [(2, 200), (4, 400)]


def test_what_is_not_plain_is_left_to_the_usual_way() -> None:
    good = make_batch(0)
    of_producer = batches.build(
        b"x", base_offset=1, last_offset_delta=0, count=1, base_timestamp=1, max_timestamp=1, leader_epoch=0,
        producer_id=7, producer_epoch=0, base_sequence=0,
    )  # fmt: skip
    emptied = batches.build(
        b"", base_offset=1, last_offset_delta=3, count=0, base_timestamp=1, max_timestamp=1, leader_epoch=0
    )
    assert run_of(bytes(good)) is not None
    for second in (of_producer, emptied, make_batch(2), make_batch(0), make_batch(1, epoch=1)):
        assert run_of(joined(good, second)) is None
    assert run_of(joined(good, make_batch(1))[:-1]) is None
    assert run_of(b"") is None


@pytest.mark.parametrize("at", range(100))
def test_no_damaged_byte_is_taken(at: int) -> None:
    """Of the second batch. The first 17 bytes, which the checksum does not cover, place it in the log."""
    data = bytearray(joined(make_batch(0), make_batch(1)))
    data[100 + at] ^= 1
    assert run_of(bytes(data)) is None


def test_a_damaged_batch_keeps_all_of_them_out() -> None:
    log = open_log(SimulatedDisk(), ONE_SEGMENT)
    log.append_batches(memoryview(joined(make_batch(0))), 1000)
    data = bytearray(joined(make_batch(1), make_batch(2)))
    data[-1] ^= 1
    with pytest.raises(CorruptBatch):
        log.append_batches(memoryview(data), 1000)
    assert log.end_offset == 1
