"""A small data directory, one bit of which is wrong; and what a log in it answers to every question."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID

from tidelog.errors import StorageError, TidelogError
from tidelog.log.directory import DataDirectory
from tidelog.log.log import Log
from tidelog.log.verification import DamagedSegment
from tidelog.protocol import batch as batches
from tidelog.protocol.records import Record, encode_batch
from tidelog.sim.disk import SimulatedDisk, everything
from tidelog.types import TopicPartition
from unit.log.log_model import Settings, append, record_batch
from unit.log.transaction_model import marker_batch

NAME = TopicPartition("t", 0)
TOPIC_ID = UUID(int=0x1234567890ABCDEF1234567890ABCDEF)
SETTINGS = Settings(segment_bytes=700, index_interval_bytes=100)
WATERMARK = 40
START = 2
NOW_MS = 5000
# Up and down, and the same again: the largest so far is rarely the newest.
TIMES = [1000, 1007, 1005, 1007, 1012, 1003, 1012, 1015, 1015, 1009]
DATA = "data"


def write_log(log: Log) -> None:
    """Records of several epochs, batches of several records, two producers with transactions."""
    number = 0
    while log.end_offset < 52:
        offset, epoch = log.end_offset, (0, 1, 3, 3)[min(log.end_offset // 15, 3)]
        kind = number % 6
        time = TIMES[number % len(TIMES)] + 20 * (number // len(TIMES))
        if kind == 1:
            append(log, transactional_batch(offset, 7, [time], epoch))
        elif kind == 2:
            append(log, transactional_batch(offset, 8, [time - 3, time], epoch))
        elif kind == 4:
            append(log, marker_batch(offset, 7, commits=number % 4 == 0, leader_epoch=epoch))
        elif kind == 5 and number % 5:
            append(log, marker_batch(offset, 8, commits=False, leader_epoch=epoch))
        else:
            append(log, record_batch(offset, [time, time - 1, time][: 1 + number % 3], epoch=epoch))
        number += 1


def transactional_batch(offset: int, producer_id: int, times: list[int], epoch: int) -> bytearray:
    records = [Record(offset + number, time, None, b"t%d" % number) for number, time in enumerate(times)]
    return encode_batch(
        records, leader_epoch=epoch, producer_id=producer_id, producer_epoch=0, base_sequence=0,
        transactional=True,
    )  # fmt: skip


def open_directory(disk: SimulatedDisk, *, same_boot: bool) -> tuple[DataDirectory, Log]:
    directory = DataDirectory.open(disk, DATA, node_id=1, cluster_id="cluster", now_ms=NOW_MS)
    directory.same_boot = same_boot
    return directory, directory.open_log(NAME, TOPIC_ID, SETTINGS, NOW_MS)


def stopped_cleanly() -> SimulatedDisk:
    disk = SimulatedDisk(tells=False)
    directory, log = open_directory(disk, same_boot=True)
    write_log(log)
    log.advance_start(START)
    assert directory.close({NAME: WATERMARK})
    disk.process_died()
    return disk


def killed() -> SimulatedDisk:
    """In the middle of its life: a checkpoint was written, and more records after it."""
    disk = SimulatedDisk(tells=False)
    directory, log = open_directory(disk, same_boot=True)
    write_log(log)
    log.advance_start(START)
    log.sync_now()
    directory.checkpoint({NAME: WATERMARK})
    for _ in range(3):
        append(log, record_batch(log.end_offset, [2000 + log.end_offset], epoch=3))
    disk.crash(survive=everything, names=everything)
    return disk


@dataclass
class Answers:
    """What a log said. Errors count as answers."""

    start: int = 0
    end: int = 0
    said: dict[tuple[object, ...], object] = field(default_factory=dict)
    damaged_from: int | None = None


def ask(log: Log, ends: list[int]) -> Answers:
    """Everything: from each offset to each of some ends, by time, and what was aborted."""
    answers = Answers(log.start_offset, log.end_offset)
    for question, answer in _questions(log, ends):
        try:
            answers.said[question] = answer()
        except DamagedSegment as damage:
            answers.said[question] = StorageError
            answers.damaged_from = min(damage.offset, answers.damaged_from or damage.offset)
        except TidelogError as error:
            answers.said[question] = type(error)
    return answers


def _questions(log: Log, ends: list[int]) -> Iterator[tuple[tuple[object, ...], Callable[[], object]]]:
    for offset in range(ends[-1]):
        for end in (ends[-1], ends[0]):
            for size in (1, 100_000):
                question = ("read", offset, end, size)
                yield question, lambda o=offset, e=end, s=size: _read(log, o, e, s)  # type: ignore[misc]
        yield ("aborted", offset), lambda o=offset: log.aborted_transactions(o, o + 9)  # type: ignore[misc]
        yield ("left out", offset), lambda o=offset: _left_out(log, o, ends[-1])  # type: ignore[misc]
    for time in sorted({*TIMES, *(each + 40 for each in TIMES), 990, 1021, 1087, 3000}):
        for end in ends:
            yield ("time", time, end), lambda t=time, e=end: log.find_timestamp(t, e)  # type: ignore[misc]
    for end in ends:
        yield ("newest", end), lambda e=end: log.find_max_timestamp(e)  # type: ignore[misc]
    yield ("stable",), lambda: log.last_stable_offset(ends[0])


def _read(log: Log, offset: int, end: int, size: int) -> bytes:
    region = log.read(offset, size, min(end, log.end_offset), at_least_one_batch=True)
    data = region.read()
    whole = [at + header.size for at, header in batches.iterate(data)]
    return data[: whole[-1]] if whole else b""


def _left_out(log: Log, offset: int, end: int) -> set[tuple[int, int]]:
    """Aborted transactions that a reader meets and was not told of. More than these may be named."""
    data = log.read(offset, 150, end, at_least_one_batch=True).read()
    behind = max((header.next_offset for _, header in batches.iterate(data)), default=offset)
    return {*log.aborted_transactions(offset, behind)} - {*log.aborted_in(offset, 150, end)}


def bits_of(disk: SimulatedDisk, wanted: Callable[[str], bool]) -> list[tuple[str, int, int]]:
    return [
        (path, position, bit)
        for path in disk.paths()
        if wanted(path)
        for position in range(disk.size(path))
        for bit in range(8)
    ]


def sample(bits: list[tuple[str, int, int]], count: int | None) -> list[tuple[str, int, int]]:
    """All of them, or so many, spread evenly over all files; always the same ones."""
    if count is None or len(bits) <= count:
        return bits
    step = len(bits) // count | 1
    return list(islice(bits, 0, None, step))


def copy_of(disk: SimulatedDisk) -> SimulatedDisk:
    return deepcopy(disk)


# --- judging ------------------------------------------------------------------------------------------------


def wrong(was: Answers, now: Answers, *, records_flipped: bool, cut: bool) -> list[str]:
    """What was answered wrongly or left out without a word. Errors are right where records are damaged; a log
    that says that it was cut may be shorter."""
    found = []
    if (now.start, now.end) != (was.start, was.end) and not (cut and now.end <= was.end):
        found.append(f"{now.start} to {now.end}, was {was.start} to {was.end}")
    for question, answer in now.said.items():
        before = was.said[question]
        if is_same(question, answer, before):
            continue
        if isinstance(answer, type):
            if not (records_flipped or cut):
                found.append(f"{question}: {answer.__name__}")
        elif not (cut and is_shorter(question, answer, before, now)):
            found.append(f"{question}: {shown(answer)} was {shown(before)}")
    return found


def shown(answer: object) -> str:
    if isinstance(answer, bytes):
        return str([(each.base_offset, each.leader_epoch) for _, each in batches.iterate(answer)])
    return repr(answer)


def is_same(question: tuple[object, ...], answer: object, before: object) -> bool:
    """A read gives what one segment has, and less is right: all offsets are asked. Nothing is not less."""
    if (
        question[0] == "read"
        and isinstance(answer, bytes)
        and isinstance(before, bytes)
        and answer
        and before
    ):
        return before.startswith(answer) or answer.startswith(before)
    return answer == before


def is_shorter(question: tuple[object, ...], answer: object, before: object, now: Answers) -> bool:
    """Whether the answer is right for a log that ends earlier, and says so."""
    if question[0] == "read":
        return isinstance(answer, bytes) and isinstance(before, bytes) and before.startswith(answer)
    return question[0] in ("time", "newest", "stable", "aborted", "left out") and now.end < 55


def repair(log: Log, damaged_from: int, whole: list[bytes]) -> None:
    """As a replica does: cut, and fetch again from another."""
    log.truncate_to(damaged_from)
    for batch in whole:
        if batches.parse_prefix(batch)[0] >= log.end_offset:
            log.append_batches(memoryview(batch), NOW_MS)
    log.advance_start(START)


def batches_of(log: Log) -> list[bytes]:
    found = []
    for segment in log.segments:
        data = bytes(segment.region().read())
        found += [data[at : at + header.size] for at, header in batches.iterate(data)]
    return found
