"""Faults of disks and clocks.

Slow, full and failing disks and the clock are troubles inside of the broker process, which the lab sets in
its control file. Power failures, wiped disks and flipped bits are made from outside, on the broker's files.
"""

import errno
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from tidelog.lab.faults import processes
from tidelog.lab.faults.errors import FaultError
from tidelog.lab.faults.injected import Injected
from tidelog.lab.faults.parties import Parties, brokers_of, words_of
from tidelog.lab.faults.processes import Processes
from tidelog.lab.faults.rollback import forget_journal, lose_power
from tidelog.runtime.hooks.control import Control

Values = Mapping[str, object]


class Hooked(Processes, Protocol):
    """A cluster whose brokers look at the lab's control files."""

    def control(self, number: int) -> Control:
        """FaultError if it has none."""

    def data_directory(self, number: int) -> Path: ...

    def journal(self, number: int) -> Path | None:
        """The directory of the journal for power failures; None: there is none."""


def slow_disk(cluster: Hooked, parties: Parties, values: Values) -> Injected:
    ms = float(str(values["ms"]))
    if ms < 0:
        raise FaultError(f"ms of slow-disk is {ms:g}, and cannot be negative.")
    _change(cluster, parties, write_ms=ms, sync_ms=ms)
    heal = partial(_change, cluster, parties, write_ms=0, sync_ms=0)
    return Injected(f"{ms:g} ms for each write and sync of {words_of(parties.first)}", heal)


def full_disk(cluster: Hooked, parties: Parties, values: Values) -> Injected:
    _change(cluster, parties, is_full=1)
    return Injected(f"full disk of {words_of(parties.first)}", partial(_repair, cluster, parties, is_full=0))


def failing_disk(cluster: Hooked, parties: Parties, values: Values) -> Injected:
    _change(cluster, parties, write_error=errno.EIO, sync_error=errno.EIO)
    heal = partial(_repair, cluster, parties, write_error=0, sync_error=0)
    return Injected(f"failing disk of {words_of(parties.first)}", heal)


def clock_jump(cluster: Hooked, parties: Parties, values: Values) -> Injected:
    jump_ms = int(1000 * float(str(values["seconds"])))

    def jump(by_ms: int) -> None:
        for number in brokers_of(parties.first):
            control = cluster.control(number)
            control.change(clock_ms=control.trouble.clock_ms + by_ms)

    jump(jump_ms)
    words = f"{abs(jump_ms) / 1000:g} s {'forward' if jump_ms >= 0 else 'back'}"
    return Injected(f"clock of {words_of(parties.first)} {words}", partial(jump, -jump_ms))


def power_failure(cluster: Hooked, parties: Parties, values: Values) -> Injected:
    numbers = brokers_of(parties.first)
    journals = {number: journal for number in numbers if (journal := cluster.journal(number)) is not None}
    if len(journals) < len(numbers):
        raise FaultError("A power failure needs a cluster that keeps a journal of what is synced.")
    processes.kill(cluster, numbers)
    for number, journal in journals.items():
        lose_power(cluster.data_directory(number), journal)
    return Injected(
        f"power failure of {words_of(parties.first)}", partial(processes.launch, cluster, numbers)
    )


def wipe(cluster: Hooked, parties: Parties, values: Values) -> Injected:
    numbers = brokers_of(parties.first)
    processes.kill(cluster, numbers)
    for number in numbers:
        shutil.rmtree(cluster.data_directory(number), ignore_errors=True)
        journal = cluster.journal(number)
        if journal is not None:
            forget_journal(journal)
    return Injected(f"wiped disk of {words_of(parties.first)}", partial(processes.launch, cluster, numbers))


def flipped_bit(cluster: Hooked, parties: Parties, values: Values) -> Injected:
    for number in brokers_of(parties.first):
        flip(oldest_segment(cluster.data_directory(number), parties.topic))
    topic = f" of {parties.topic}" if parties.topic else ""
    return Injected(f"flipped bit in the oldest segment{topic} of {words_of(parties.first)}")


def oldest_segment(data: Path, topic: str) -> Path:
    """Of the partition with the lowest name that has one with records. Topics of the cluster itself do not
    count, unless they are asked for.
    """
    wanted = f"{topic}-*" if topic else "[!_]*-*"
    for directory in sorted(data.glob(wanted)):
        name, _, partition = directory.name.rpartition("-")
        if not partition.isdecimal() or (topic and name != topic):
            continue
        segments = sorted(path for path in directory.glob("*.log") if path.stat().st_size)
        if segments:
            return segments[0]
    raise FaultError(f"There is no segment with records{' of ' + topic if topic else ''} in {data}.")


def flip(segment: Path) -> None:
    """In the first half of the file: the end of the active segment may not be synced yet, and damage there is
    like a torn write.
    """
    with segment.open("r+b", buffering=0) as file:
        position = segment.stat().st_size // 4
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def _change(cluster: Hooked, parties: Parties, **values: float) -> None:
    for number in brokers_of(parties.first):
        cluster.control(number).change(**values)


def _repair(cluster: Hooked, parties: Parties, **values: float) -> None:
    """A broker does not use a log again that could not be written, until it is restarted."""
    _change(cluster, parties, **values)
    processes.restart(cluster, processes.running(cluster, brokers_of(parties.first)))
