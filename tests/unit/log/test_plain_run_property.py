"""A log is the same whether batches that come together are taken in one pass or one by one: whatever the
batches are, wherever a write fails, and after the log is opened again.
"""

import random
from errno import EIO
from typing import Any

import pytest

from tidelog.errors import TidelogError
from tidelog.log import appending
from tidelog.log.log import Log
from tidelog.log.plain_run import plain_run
from tidelog.protocol import batch as batches
from tidelog.protocol.records import ControlType, Record, control_key, encode_batch
from tidelog.sim.disk import SimulatedDisk
from unit.log.log_model import SMALL, Settings, contents, open_log, sync

SEEDS = 10
FAR = 1 << 31  # more than a segment's offsets may differ
OWNERS = frozenset({"_segment", "_storage", "_handles", "_write", "_row", "_on_closed", "on_closed_file"})
SETTINGS = (
    SMALL,
    SMALL.but(index_interval_bytes=0, segment_bytes=3000),
    SMALL.but(segment_index_bytes=48, segment_bytes=1 << 16),  # The index is full after a few entries.
    SMALL.but(segment_ms=30, segment_bytes=1 << 16, preallocate=True),
    SMALL.but(cleanup_policy=frozenset({"compact"}), segment_bytes=1 << 16),
)


class Sender:
    """A leader that sends anything that a leader may send, and now and then what it must not."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.offset, self.epoch, self.time = 0, self.chance.choice([-1, 0, 0, 3]), 1000
        self.sequences: dict[int, int] = {}

    def answer(self) -> bytes:
        chance = self.chance
        data = b"".join(self._batch() for _ in range(chance.choice([1, 2, 5, 20])))
        if chance.random() < 0.05:
            data = data[: -chance.randint(1, 70)]
        elif chance.random() < 0.05:
            spoilt = bytearray(data)
            spoilt[chance.randrange(len(spoilt))] ^= 1 << chance.randrange(8)
            data = bytes(spoilt)
        return data

    def _batch(self) -> bytes:
        chance, offset = self.chance, self.offset
        self.epoch += chance.random() < 0.02
        if chance.random() < 0.02:
            offset += chance.choice([1, 5, FAR]) if chance.random() < 0.9 else -1
        self.time += chance.choice([-3, 0, 0, 1, 5])
        if chance.random() < 0.04:
            return self._control(max(offset, 0))
        delta = FAR - 2 if chance.random() < 0.003 else chance.choice([0, 0, 1, 6])
        fields = {"count": delta + 1}
        if chance.random() < 0.05 or delta > 6:
            fields["count"] = chance.choice([1, 1, 1, 0, delta + 1 if delta > 6 else delta + 2])
        if chance.random() < 0.05:
            producer = chance.choice([7, 8])
            sequence = self.sequences.get(producer, 0)
            self.sequences[producer] = sequence + delta + 1
            fields |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
        timestamp = chance.choice([self.time] * 9 + [-1])
        self.offset = max(offset, 0) + delta + 1
        return bytes(
            batches.build(
                b"x" * chance.randint(0, 60),
                base_offset=max(offset, 0),
                last_offset_delta=delta,
                base_timestamp=timestamp,
                max_timestamp=timestamp,
                leader_epoch=self.epoch,
                attributes=chance.choice([0, 0, 0, 8, 3, 0x20]),
                **fields,
            )
        )

    def _control(self, offset: int) -> bytes:
        kind = self.chance.choice(list(ControlType))
        self.offset = offset + 1
        record = Record(offset, self.time, control_key(kind), b"\0" * 6, ())
        return bytes(encode_batch([record], leader_epoch=self.epoch, control=True))


def fields_of(value: Any, depth: int = 0) -> Any:
    """All there is to see of an object, down to plain values."""
    if depth > 6 or callable(value):
        return None
    if isinstance(value, dict):
        return [(key, fields_of(each, depth + 1)) for key, each in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [fields_of(each, depth + 1) for each in value]
    names = {name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())}
    names |= set(getattr(value, "__dict__", ()))
    if not type(value).__module__.startswith("tidelog.log") or not names:
        return value if isinstance(value, (int, str, bytes, float)) else repr(type(value))
    return [
        (name, fields_of(getattr(value, name, None), depth + 1)) for name in sorted(names - OWNERS)
    ]  # fmt: skip


def outcome(log: Log, data: bytes) -> str:
    try:
        return str(log.append_batches(memoryview(data), 1000))
    except TidelogError as error:
        return repr((type(error), error.message))


class Two:
    """The same log twice; only the first takes batches in one pass."""

    def __init__(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        self.disks = (SimulatedDisk(), SimulatedDisk())
        self.settings = settings
        self.logs = [open_log(disk, settings) for disk in self.disks]
        self._monkeypatch = monkeypatch
        self.taken = 0

    def _one_pass(self, *arguments: Any) -> Any:
        run = plain_run(*arguments)
        self.taken += run is not None
        return run

    def append(self, data: bytes) -> None:
        self._monkeypatch.setattr(appending, "plain_run", self._one_pass)
        first = outcome(self.logs[0], data)
        self._monkeypatch.setattr(appending, "plain_run", lambda *_: None)
        assert first == outcome(self.logs[1], data)

    def compare(self) -> None:
        first, second = (fields_of(log) for log in self.logs)
        assert first == second
        self.each(contents)
        assert self.disks[0].contents("t-0") == self.disks[1].contents("t-0")

    def fail_next_write(self, chance: random.Random) -> None:
        torn_at = chance.choice([0, 1, 70, 300])
        for disk in self.disks:
            disk.fail_at(disk.operations + 1, EIO, torn_at)

    def forget_faults(self) -> None:
        for disk in self.disks:
            disk.faults.clear()

    def each(self, does: Any) -> None:
        results = []
        for log in self.logs:
            try:
                results.append(repr(does(log)))
            except TidelogError as error:
                results.append(error.message)
        assert results[0] == results[1]

    def reopen(self, *, crash: bool) -> None:
        """A log that has failed is not closed cleanly."""
        clean = not crash and self.logs[0].failure is None
        for number, (disk, log) in enumerate(zip(self.disks, self.logs, strict=True)):
            if crash:
                disk.crash()
            else:
                log.close()
            self.logs[number] = open_log(
                disk,
                self.settings,
                clean=clean,
                recovery_point=log.recovery_point,
                log_start_offset=log.start_offset,
            )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_both_ways_leave_the_same_log(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sender, settings = Sender(seed), SETTINGS[seed % len(SETTINGS)]
    chance = random.Random(f"other {seed}")
    two = Two(settings, monkeypatch)
    for _ in range(60):
        failing = chance.random() < 0.03
        if failing:
            two.fail_next_write(chance)
        two.append(sender.answer())
        two.forget_faults()
        two.compare()
        what = chance.random()
        if what < 0.05:
            two.each(lambda log: sync(log))
        elif what < 0.09:
            to = chance.randint(0, two.logs[0].end_offset)
            two.each(lambda log, to=to: log.truncate_to(max(to, log.start_offset)))
        elif what < 0.12 or two.logs[0].failure is not None:
            two.reopen(crash=False)
        elif what < 0.15:
            two.each(lambda log: log.roll(1000))
        elif what < 0.18:
            two.each(sync)
            two.reopen(crash=True)
        two.compare()
        sender.offset = two.logs[0].end_offset
        sender.epoch = max(sender.epoch, two.logs[0].epochs.latest)
    assert two.taken
