"""Which log is compacted next and how far: plan, map of keys, the clean mark and the order of the work."""

from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import CorruptBatch, InvariantViolation, StorageError
from tidelog.log.cleaner import Candidate, Cleaner
from tidelog.log.cleaner_files import CompactionAbandoned
from tidelog.log.cleaner_map import KeyOffsets, keys_that_fit
from tidelog.log.cleaner_plan import Cleanable, find_cleanable
from tidelog.log.compaction import Compaction
from tidelog.log.log import Log
from tidelog.log.producers import LastWritten
from tidelog.sim.disk import SimulatedDisk, everything
from tidelog.types import TopicPartition
from unit.log.compaction_model import COMPACT, CompactSettings, all_records, run, short, write_each
from unit.log.log_model import open_log, sync

ONE = COMPACT.but(segment_bytes=1 << 20)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BUFFER = 1 << 16


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def plan(log: Log, settings: CompactSettings = ONE, *, clean: int = 0, watermark: int = 1 << 40) -> Cleanable:
    return find_cleanable(log, settings, clean_offset=clean, high_watermark=watermark, now_ms=10_000)


class TestPlan:
    def test_all_inactive_segments_are_dirty_at_first(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE)
        write_each(log, "a1 a2 roll a3 roll a4")
        found = plan(log)
        assert (found.first_dirty_offset, found.end_offset, found.clean_bytes) == (0, 3, 0)
        assert found.dirty_bytes == log.segments[0].size + log.segments[1].size
        assert found.dirty_ratio == 1.0
        assert found.is_due(ONE)

    def test_the_ratio_decides(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE)
        write_each(log, "a1 b1 c1 roll d1 roll e1")
        found = plan(log, clean=3)
        assert (found.first_dirty_offset, found.end_offset) == (3, 4)
        assert found.dirty_ratio == pytest.approx(0.25)
        assert not found.is_due(ONE)
        assert found.is_due(ONE.but(min_cleanable_dirty_ratio=0.2))
        assert not found.is_due(ONE.but(min_cleanable_dirty_ratio=0.25))

    def test_nothing_dirty_is_never_due(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE)
        write_each(log, "a1 roll b1")
        assert not plan(log, clean=1).is_due(ONE.but(min_cleanable_dirty_ratio=0.0, max_compaction_lag_ms=1))
        assert not plan(open_log(disk, ONE, directory="u-0")).is_due(ONE)

    def test_the_longest_lag_forces(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE)
        write_each(log, "a1 b1 c1 roll d1 roll e1", timestamp=9_000)
        assert not plan(log, ONE.but(max_compaction_lag_ms=1_000), clean=3).overdue
        late = plan(log, ONE.but(max_compaction_lag_ms=999), clean=3)
        assert late.overdue
        assert late.is_due(ONE)

    def test_a_deleted_start_is_where_dirty_begins(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE)
        write_each(log, "a1 a2 roll a3 a4 roll")
        log.advance_start(3)
        assert plan(log, clean=1).first_dirty_offset == 3

    def test_a_checkpoint_behind_the_end_is_worthless(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE)
        write_each(log, "a1 a2 roll a3")
        assert plan(log, clean=4) == plan(log, clean=0)

    def test_a_watermark_below_the_clean_part_leaves_nothing_to_do(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE)
        write_each(log, "a1 roll a2 roll a3")
        found = plan(log, watermark=0)
        assert (found.end_offset, found.dirty_bytes, found.is_due(ONE)) == (0, 0, False)


class TestKeyOffsets:
    @given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 1 << 50)), max_size=200))
    def test_is_a_dict(self, puts: list[tuple[bytes, int]]) -> None:
        model: dict[bytes, int] = {}
        found = KeyOffsets(max(1, len({key for key, _ in puts})))
        for key, offset in puts:
            found.put(memoryview(key), offset)
            model[key] = offset
        assert found.count == len(model)
        assert {key: found.get(key) for key in model} == model
        assert found.get(b"never put") == -1

    def test_is_full_to_the_last_key_and_refuses_one_more(self) -> None:
        found = KeyOffsets(100)
        for number in range(100):
            found.put(b"%d" % number, number)
        found.put(b"7", 1000)
        assert found.get(b"7") == 1000
        assert [found.get(b"%d" % number) for number in range(50, 100)] == list(range(50, 100))
        with pytest.raises(InvariantViolation):
            found.put(b"one more", 1001)

    def test_takes_the_memory_it_was_given(self) -> None:
        keys = keys_that_fit(1 << 20)
        found = KeyOffsets(keys)
        used = sum(part.itemsize * len(part) for part in (found._high, found._low, found._offsets))
        assert (1 << 20) * 0.95 < used <= (1 << 20) + 100
        assert keys_that_fit(0) == 1


class Broker:
    """Two compacted logs in one data directory."""

    def __init__(self, disk: SimulatedDisk, settings: CompactSettings = ONE) -> None:
        self.disk = disk
        self.settings = settings
        disk.make_directory("data")
        disk.sync_directory("")
        self.logs = {name: open_log(disk, settings, directory=f"data/{name}") for name in (T0, T1)}
        self.cleaner = Cleaner(disk)

    def candidates(self) -> list[Candidate]:
        for log in self.logs.values():
            if not log.closed:
                sync(log)
        return [Candidate(name, log, self.settings, log.end_offset) for name, log in self.logs.items()]

    def pick(self) -> tuple[TopicPartition, Compaction] | None:
        return self.cleaner.pick(self.candidates(), 10_000, buffer_bytes=BUFFER)

    def run_one(self) -> TopicPartition | None:
        chosen = self.pick()
        if chosen is None:
            return None
        name, compaction = chosen
        compaction.read_keys()
        while (cleaned := compaction.clean_next()) is not None:
            compaction.swap_in(cleaned, 10_000)
        compaction.make_durable()
        self.cleaner.finish(name, compaction)
        return name


class TestCleaner:
    def test_the_dirtiest_log_comes_first_and_none_comes_twice(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk)
        write_each(broker.logs[T0], "a1 b1 roll")
        assert broker.run_one() == T0
        write_each(broker.logs[T0], "a2 b2 c1 roll")
        write_each(broker.logs[T1], "a1 a2 roll")
        assert [broker.run_one() for _ in range(3)] == [T1, T0, None]
        assert short(all_records(broker.logs[T1])) == "1a2"
        assert short(all_records(broker.logs[T0])) == "2a2 3b2 4c1"

    def test_an_overdue_log_comes_before_a_dirtier_one(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk, ONE.but(max_compaction_lag_ms=5_000))
        write_each(broker.logs[T0], "a1 roll", timestamp=8_000)
        broker.run_one()
        write_each(broker.logs[T0], "b1 roll", timestamp=4_000)
        write_each(broker.logs[T1], "a1 roll", timestamp=8_000)
        assert [broker.run_one() for _ in range(3)] == [T0, T1, None]

    def test_the_maximum_lag_holds_for_a_log_that_nobody_appends_to(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk, ONE.but(max_compaction_lag_ms=5_000))
        write_each(broker.logs[T0], "a1 a2", timestamp=4_000)
        write_each(broker.logs[T1], "a1 a2", timestamp=5_000)
        assert [broker.run_one() for _ in range(2)] == [T0, None]
        assert short(all_records(broker.logs[T0])) == "1a2"
        assert short(all_records(broker.logs[T1])) == "0a1 1a2"
        assert [segment.base_offset for segment in broker.logs[T0].segments] == [0, 2]

    def test_how_far_is_remembered_over_a_restart(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk)
        write_each(broker.logs[T0], "a1 a2 roll a3")
        broker.run_one()
        disk.crash(survive=everything, names=everything)
        assert open_log(disk, ONE, directory=f"data/{T0}").clean_offset == 2

    def test_a_mark_that_was_not_synced_costs_a_pass(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk)
        write_each(broker.logs[T0], "a1 a2 roll a3")
        sync(broker.logs[T0])
        broker.run_one()
        disk.crash()
        assert open_log(disk, ONE, directory=f"data/{T0}").clean_offset == 0

    def test_a_topic_made_again_begins_at_its_start(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk)
        write_each(broker.logs[T0], "a1 a2 roll")
        broker.run_one()
        broker.logs[T0].abandon()
        disk.rename(f"data/{T0}", "data/t-0.deleted")
        broker.logs[T0] = open_log(disk, ONE, directory=f"data/{T0}")
        write_each(broker.logs[T0], "a1 b1 roll a2 roll")
        assert broker.run_one() == T0
        assert short(all_records(broker.logs[T0])) == "1b1 2a2"

    def test_a_log_that_was_cut_is_dirty_from_there(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk)
        log = broker.logs[T0]
        write_each(log, "a1 b1 c1 roll d1")
        broker.run_one()
        assert log.clean_offset == 3
        log.truncate_to(2)
        assert log.clean_offset == 2
        write_each(log, "c2 c3")
        assert log.clean_offset == 2
        disk.crash()
        assert open_log(disk, ONE, directory=f"data/{T0}").clean_offset <= 2, "the lower mark is durable"

    def test_a_log_that_lost_its_end_is_dirty_from_there(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk)
        log = broker.logs[T0]
        write_each(log, "a1 b1 c1 roll")
        sync(log)
        broker.run_one()
        assert log.clean_offset == 3
        disk.sync_directory(f"data/{T0}")
        disk.crash()
        disk.open(f"data/{T0}/00000000000000000000.log").truncate(100)
        log = open_log(disk, ONE, directory=f"data/{T0}")
        assert log.end_offset == 1
        assert log.clean_offset == 1
        disk.crash()
        assert open_log(disk, ONE, directory=f"data/{T0}").clean_offset == 1

    @pytest.mark.parametrize("how", ["abandon", "truncate"])
    def test_a_pass_has_no_say_when_its_log_is_cut_or_deleted_meanwhile(
        self, disk: SimulatedDisk, how: str
    ) -> None:
        broker = Broker(disk)
        log = broker.logs[T0]
        write_each(log, "a1 a2 roll")
        chosen = broker.pick()
        assert chosen is not None
        name, compaction = chosen
        run(compaction)
        compaction.make_durable()
        if how == "abandon":
            log.abandon()
        else:
            log.truncate_to(1)
            write_each(log, "b1 roll")
        with pytest.raises(CompactionAbandoned):
            broker.cleaner.finish(name, compaction)
        assert log.clean_offset == 0

    def test_a_damaged_log_is_left_alone_and_the_others_go_on(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk)
        write_each(broker.logs[T0], "a1 a2 roll")
        write_each(broker.logs[T1], "a1 a2 roll")
        disk.open(broker.logs[T0].segments[0].path + ".log").write_at(70, b"\x00")
        chosen = broker.pick()
        assert chosen is not None
        assert chosen[0] == T0
        with pytest.raises(CorruptBatch) as caught:
            chosen[1].read_keys()
        broker.cleaner.give_up(*chosen, caught.value)
        assert [broker.run_one() for _ in range(2)] == [T1, None]

    def test_a_log_whose_age_cannot_be_read_does_not_stop_the_others(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk, ONE.but(min_compaction_lag_ms=1))
        for log in broker.logs.values():
            write_each(log, "a1 a2 roll b1")
        damaged = broker.logs[T0]
        path = damaged.segments[0].path
        sync(damaged)
        damaged.close()
        disk.open(path + ".timeindex").truncate(0)
        disk.open(path + ".log").write_at(8, b"\x7f")  # the length of its first batch
        broker.logs[T0] = open_log(
            disk, broker.settings, clean=True, recovery_point=3, directory=f"data/{T0}"
        )
        assert [broker.run_one() for _ in range(2)] == [T1, None]

    def test_a_log_that_the_disk_does_not_give_does_not_stop_the_others(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk, ONE.but(max_compaction_lag_ms=5_000))
        for log in broker.logs.values():
            write_each(log, "a1 a2 roll b1")

        class Unreadable:
            closed, failure, cuts, segments = False, None, 0, property(lambda _: [Unreadable()])

            def header_at(self, position: int) -> None:
                raise OSError("input/output error")

        unreadable = Candidate(T0, cast(Log, Unreadable()), broker.settings, 0)
        candidates = [unreadable, *broker.candidates()[1:]]
        chosen = broker.cleaner.pick(candidates, 10_000, buffer_bytes=BUFFER)
        assert chosen is not None
        assert chosen[0] == T1

    def test_only_the_producers_of_the_chosen_log_are_listed(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk)
        write_each(broker.logs[T1], "a1 a2 roll")
        asked: list[tuple[TopicPartition, int]] = []

        def of(name: TopicPartition) -> Callable[[int], dict[int, LastWritten]]:
            return lambda end_offset: asked.append((name, end_offset)) or {}  # type: ignore[func-returns-value]

        candidates = [each._replace(last_written=of(each.name)) for each in broker.candidates()]
        assert broker.cleaner.pick(candidates, 10_000, buffer_bytes=BUFFER) is not None
        assert asked == [(T1, 2)]

    def test_an_abandoned_pass_gets_another_turn(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk)
        write_each(broker.logs[T0], "a1 a2 roll")
        chosen = broker.pick()
        assert chosen is not None
        broker.cleaner.give_up(*chosen, CompactionAbandoned("somebody cut the log"))
        assert broker.run_one() == T0

    def test_a_damaged_log_is_tried_again_once_it_is_repaired(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk)
        log = broker.logs[T0]
        write_each(log, "a1 a2 roll")
        chosen = broker.pick()
        assert chosen is not None
        broker.cleaner.give_up(*chosen, CorruptBatch("a flipped bit"))
        assert broker.run_one() is None
        log.truncate_to(1)
        write_each(log, "a3 roll")
        assert broker.run_one() == T0
        assert short(all_records(log)) == "1a3"

    @pytest.mark.parametrize("error", [StorageError("the disk"), ValueError("a defect")])
    def test_a_log_whose_compaction_fails_does_not_delay_the_others(
        self, disk: SimulatedDisk, error: Exception
    ) -> None:
        broker = Broker(disk)
        write_each(broker.logs[T0], "a1 a2 a3 roll")
        write_each(broker.logs[T1], "a1 roll")
        assert broker.run_one() == T0
        write_each(broker.logs[T0], "b1 b2 roll")
        chosen = broker.pick()
        assert chosen is not None
        broker.cleaner.give_up(*chosen, error)
        first, second = chosen[0], T0 if chosen[0] == T1 else T1
        assert [broker.run_one() for _ in range(3)] == [second, first, None]

    def test_an_unsynced_value_removes_no_synced_one(self, disk: SimulatedDisk) -> None:
        """Otherwise a power failure leaves neither."""
        log = open_log(disk, COMPACT)
        disk.sync_directory("")
        cleaner = Cleaner(disk)
        write_each(log, "a1 b1 b2 roll")
        sync(log)
        write_each(log, "a2 c1 d1 e1 roll f1")
        candidate = Candidate(T0, log, COMPACT, log.end_offset)
        chosen = cleaner.pick([candidate], 10_000, buffer_bytes=BUFFER)
        assert chosen is not None
        run(chosen[1])
        chosen[1].make_durable()
        cleaner.finish(*chosen)
        assert log.clean_offset == 3
        disk.crash(names=everything)
        assert short(all_records(open_log(disk, COMPACT))) == "0a1 2b2"

    def test_a_closed_log_is_not_picked(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk)
        write_each(broker.logs[T0], "a1 a2 roll")
        broker.logs[T0].close()
        assert broker.pick() is None

    def test_the_pace_is_asked_for_every_batch_read(self, disk: SimulatedDisk) -> None:
        broker = Broker(disk)
        write_each(broker.logs[T0], "a1 a2 b1 roll")
        sizes: list[int] = []
        chosen = broker.cleaner.pick(broker.candidates(), 10_000, buffer_bytes=BUFFER, pace=sizes.append)
        assert chosen is not None
        chosen[1].read_keys()
        assert len(sizes) == 3
        chosen[1].clean_next()
        assert sum(sizes) == chosen[1].bytes_read == 2 * broker.logs[T0].segments[0].size
