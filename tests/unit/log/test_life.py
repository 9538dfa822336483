"""A partition's whole life in a data directory, in random steps: everything that shortens, rewrites, moves or
reopens a log, with a compaction under way or not.

After every step readers of committed records believe what was written, look-ups by time find what a scan
finds, and the log says that nothing is damaged. ``TIDELOG_TEST_LIVES`` is how many lives are lived.
"""

import os
from itertools import pairwise
from random import Random
from uuid import UUID

import pytest

from tidelog.errors import TidelogError
from tidelog.log.cleaner import Candidate, Cleaner
from tidelog.log.compaction import Cleaned, Compaction
from tidelog.log.directory import DataDirectory
from tidelog.log.index_check import index_pieces
from tidelog.log.lookup import Found, Opened, Unopened
from tidelog.log.segment import Segment
from tidelog.log.verification import VerifiedPiece, pieces
from tidelog.protocol.codecs import Codec
from tidelog.protocol.records import Record, encode_batch
from tidelog.sim.disk import SimulatedDisk, everything
from tidelog.types import TopicPartition
from unit.log.compaction_model import COMPACT, all_batches, latest
from unit.log.log_model import append, sync
from unit.log.test_compaction_history import committed
from unit.log.transaction_model import marker_batch, read_committed

NAME = TopicPartition("t", 0)
LIVES = int(os.environ.get("TIDELOG_TEST_LIVES", "25"))
STEPS = 60
# What happens, and how often.
CHANCES = {
    "write": 30, "transact": 10, "write_in_transaction": 8, "roll": 4, "begin_epoch": 3,
    "compact": 6, "begin_compaction": 6, "go_on_with_compaction": 12,
    "cut": 4, "repair": 3, "delete": 3, "retain": 2, "make_again": 1,
    "kill": 3, "stop": 3, "lose_power": 2, "checkpoint": 2, "sync": 3, "remove_files": 3, "scrub": 2,
}  # fmt: skip


class Life:
    def __init__(self, seed: int) -> None:
        random = self.random = Random(seed)
        self.settings = COMPACT.but(
            segment_bytes=random.choice([200, 400, 900, 1 << 20]),
            index_interval_bytes=random.choice([0, 60, 150, 1000]),
            segment_index_bytes=random.choice([120, 1200]),
            file_delete_delay_ms=random.choice([0, 3000]),
            min_cleanable_dirty_ratio=0.0,
            cleanup_policy=frozenset({"compact", "delete"}),
        )
        self.disk = SimulatedDisk()
        self.cleaner = Cleaner(self.disk)
        self.now_ms, self.epoch, self.generation = 10_000, 0, 1
        self.written: list[str] = []  # As in test_compaction_history.
        self.committed_end = 0
        self.compaction: Compaction | None = None
        self.cleaned: Cleaned | None = None
        self.going: list[Segment] = []  # Taken out of the log, and their files not removed yet.
        self.story: list[str] = []
        self.open(same_boot=True)

    def open(self, *, same_boot: bool) -> None:
        self.directory = DataDirectory.open(self.disk, "data", node_id=1, now_ms=self.now_ms)
        self.directory.same_boot = same_boot
        self.open_log()

    def open_log(self) -> None:
        self.log = self.directory.open_log(NAME, UUID(int=self.generation), self.settings, self.now_ms)
        assert not self.log.damage
        self.compaction, self.going = None, []

    def step(self) -> None:
        self.now_ms += self.random.randrange(400)
        (what,) = self.random.choices(list(CHANCES), list(CHANCES.values()))
        self.story.append(what)
        getattr(self, what)()

    # --- growing ------------------------------------------------------------------------------------------

    def put(self, word: str) -> None:
        producer, _, what = word.rpartition(":")
        offset = self.log.end_offset
        if what in ("commit", "abort"):
            commits = what == "commit"
            batch = marker_batch(offset, int(producer), commits=commits, leader_epoch=self.epoch)
        else:
            value = None if what[1:] == "-" else what[1:].encode()
            time_ms = self.now_ms + self.random.randrange(-50, 50)
            batch = encode_batch(
                [Record(offset, time_ms, what[:1].encode(), value)],
                leader_epoch=self.epoch,
                producer_id=int(producer or -1),
                producer_epoch=0 if producer else -1,
                base_sequence=0 if producer else -1,
                transactional=bool(producer),
                codec=self.random.choice([Codec.NONE, Codec.NONE, Codec.GZIP]),
            )
        append(self.log, bytearray(batch), self.now_ms)
        self.written.append(word)

    def pair(self) -> str:
        return self.random.choice("aab") + self.random.choice("12--")

    def write(self) -> None:
        self.put(self.pair())

    def transact(self) -> None:
        producer = self.random.choice("778")
        self.put(f"{producer}:{self.pair()}")
        self.put(f"{producer}:{self.random.choice(['commit', 'abort'])}")

    def write_in_transaction(self) -> None:
        what = self.random.choice(["commit", "abort", self.pair(), self.pair()])
        self.put(f"{self.random.choice('778')}:{what}")

    def roll(self) -> None:
        self.log.roll(self.now_ms)

    def begin_epoch(self) -> None:
        self.epoch += 1

    # --- compaction ---------------------------------------------------------------------------------------

    def begin_compaction(self) -> None:
        if self.compaction is not None:
            return
        self.now_ms += 1500
        self.put(f"z{self.now_ms}")
        self.roll()
        sync(self.log)
        last_written = self.log.producers.last_written
        candidate = Candidate(NAME, self.log, self.settings, self.log.end_offset, last_written)
        chosen = self.cleaner.pick([candidate], self.now_ms, buffer_bytes=1 << 12)
        if chosen is not None:
            self.compaction, self.cleaned = chosen[1], None
            self.committed_end = self.log.end_offset
            self.compaction.read_keys()

    def go_on_with_compaction(self) -> None:
        compaction, cleaned = self.compaction, self.cleaned
        if compaction is None:
            return
        try:
            if cleaned is not None:
                self.cleaned = None
                compaction.swap_in(cleaned, self.now_ms)
                return
            self.cleaned = compaction.clean_next()
            if self.cleaned is None:
                self.compaction = None
                compaction.make_durable()
                self.cleaner.finish(NAME, compaction)
        except TidelogError as error:
            self.compaction = None
            self.cleaner.give_up(NAME, compaction, error)

    def compact(self) -> None:
        self.begin_compaction()
        while self.compaction is not None:
            self.go_on_with_compaction()

    # --- shortening ---------------------------------------------------------------------------------------

    def cut_at(self, offset: int) -> list[str]:
        self.directory.lower_claims(NAME, offset)
        self.log.truncate_to(offset)
        lost = self.written[self.log.end_offset :]
        del self.written[self.log.end_offset :]
        return lost

    def cut(self) -> None:
        back = self.random.randrange(1, 6)
        self.cut_at(max(self.log.end_offset - back, self.committed_end, self.log.start_offset))

    def repair(self) -> None:
        """Committed records are fetched again."""
        back = self.random.randrange(1, 12)
        for word in self.cut_at(max(self.log.end_offset - back, self.log.start_offset)):
            self.put(word)

    def delete(self) -> None:
        stable = self.log.last_stable_offset(self.log.end_offset)
        self.log.advance_start(min(self.log.start_offset + self.random.randrange(1, 8), stable))
        self.committed_end = max(self.committed_end, self.log.start_offset)
        if self.random.random() < 0.5:
            self.log.enforce_retention(self.now_ms, self.log.end_offset)

    def retain(self) -> None:
        stable = self.log.last_stable_offset(self.log.end_offset)
        self.log.config = self.settings.but(retention_bytes=self.random.choice([300, 600, 1500]))
        self.log.enforce_retention(self.now_ms, stable)
        self.log.config = self.settings
        self.committed_end = max(self.committed_end, self.log.start_offset)

    def make_again(self) -> None:
        self.directory.remove_log(NAME, self.now_ms)
        self.generation += 1
        self.written.clear()
        self.committed_end = self.epoch = 0
        self.open_log()

    def remove_files(self) -> None:
        """Some time after they were taken: the log has gone on meanwhile."""
        for segment in self.going:
            segment.remove()
        self.going = self.log.take_deleted(self.now_ms)
        self.directory.remove_doomed(self.now_ms)

    # --- restarts -----------------------------------------------------------------------------------------

    def kill(self) -> None:
        self.disk.crash(survive=everything, names=everything)
        self.open(same_boot=self.random.random() < 0.5)

    def stop(self) -> None:
        assert self.directory.close({NAME: self.committed_end})
        self.disk.process_died()
        self.open(same_boot=self.random.random() < 0.5)

    def lose_power(self) -> None:
        self.log.sync_now()
        if self.random.random() < 0.5:
            self.checkpoint()
        for _ in range(self.random.randrange(3)):
            self.write()
        self.disk.crash()
        self.open(same_boot=False)
        del self.written[self.log.end_offset :]

    def checkpoint(self) -> None:
        self.directory.checkpoint({NAME: self.committed_end})

    def sync(self) -> None:
        sync(self.log)

    # --- looking ------------------------------------------------------------------------------------------

    def scrub(self) -> None:
        for segment, following in pairwise(list(self.log.segments)):
            walk = pieces(segment, following.base_offset)
            found: VerifiedPiece | None = None
            try:
                while True:
                    found = walk.send(found).check()
                    assert not found.damage
            except StopIteration:
                pass
            assert [piece.check() for piece in index_pieces(segment)] == [""]

    def find(self, timestamp: int) -> Found | None:
        opened = Opened(self.log)
        while True:
            try:
                return self.log.find_timestamp(timestamp, self.log.end_offset, opened)
            except Unopened as batch:
                opened.note(batch, batch.look())

    def check(self) -> None:
        log = self.log
        assert log.end_offset == len(self.written)
        believed = latest(read_committed(log, log.start_offset, log.end_offset))
        assert believed == committed(self.written, log.start_offset)
        scanned = [
            (record.timestamp, record.offset, header.leader_epoch)
            for header, records in all_batches(log)
            for record in records
            if record.offset >= log.start_offset
        ]
        for _ in range(3):
            timestamp = self.now_ms - self.random.randrange(5000)
            first = next((each for each in scanned if each[0] >= timestamp), None)
            assert self.find(timestamp) == log.find_timestamp(timestamp, log.end_offset) == first
        newest = max(scanned, key=lambda each: (each[0], -each[1]), default=None)
        assert log.find_max_timestamp(log.end_offset) == newest


@pytest.mark.parametrize("seed", range(LIVES))
@pytest.mark.slow
def test_readers_believe_what_was_written(seed: int) -> None:
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
        life.check()
