"""Results that were made up: every verdict, every kind of figure."""

import math

from tidelog.lab.results import (
    ALLOWED,
    BROKEN,
    KEPT,
    NOT_RUN,
    Band,
    Cell,
    Figures,
    Latency,
    Machine,
    Results,
    Round,
    TimeLine,
)

MODES = ("isr", "primary-backup, 1 copy", "primary-backup, 2 copies", "quorum")


def figures(lost: int = 0, still_s: float = 0.4) -> Figures:
    return Figures(
        acknowledged=5812, failed=3, received=5812 - lost, lost=lost, unacknowledged=2, vanished=lost // 2,
        writes_stood_still_s=still_s, reads_stood_still_s=still_s / 2, client_back_off_s=still_s / 4,
        redundant_after_s=1.31, records_per_s=498.2, before=Latency(p50=6.1, p99=14.2, p999=31.0),
        during=Latency(p50=7.0, p99=still_s * 1000, p999=still_s * 1100),
        after=Latency(p50=6.3, p99=15.0, p999=40.2), broker_cpu_s=4.1, broker_rss_mb=61.0,
        examples=("producer-1-1 in partition 0: record 17, acknowledged at 17, is not there",) if lost else
        (), )  # fmt: skip


def time_line(still_s: float) -> TimeLine:
    steps = range(120)
    down = range(20, 20 + int(still_s * 10))
    writes = [0 if step in down else 50 + round(4 * math.sin(step)) for step in steps]
    if down.stop < 120:
        writes[down.stop] = 50 * max(len(down), 1)
    slow = [None if step in down else 8.0 + 3 * math.sin(step / 2) for step in steps]
    if down.stop < 120:
        slow[down.stop] = still_s * 1000
    return TimeLine(
        acknowledged=tuple(writes), received=(writes[0], *writes[:-1]), latency_ms=tuple(slow),
        leader=tuple(1 if step < 20 else -1 if step in down else 3 for step in steps),
        faults=(
            Band(name="kill -9 of broker 1 (leader)", start_s=2.0, end_s=8.0),
            Band(name="slow disk on broker 3", start_s=9.5),
        ),
    )  # fmt: skip


def cell(experiment: str, mode: str, verdict: str, lost: int = 0, still_s: float = 0.4) -> Cell:
    rounds = tuple(
        Round(
            number=number, verdict=verdict, figures=figures(lost, still_s), time_line=time_line(still_s),
            sentence="Nothing acknowledged was lost.",
        )
        for number in (1, 2, 3)
    )  # fmt: skip
    return Cell(
        experiment=experiment, title="kill -9 of the leader, back after 6 seconds", target="tidelog",
        mode=mode, verdict=verdict, rounds=rounds if verdict != NOT_RUN else (), promise=(
            "One failure is tolerated for writes.", "Nothing acknowledged is lost <unless both disks are>.",
        ),
        sentence="Writes stood still for 0.4 s, and every acknowledged record is there.",
        worst=figures(lost, still_s), median=figures(lost // 2, still_s / 2),
        settings={"replication.mode": mode, "min.insync.replicas": "2"}, network="relay",
        source='name = "leader-killed"\n[[timeline]]\nat = 2.0\nfault = "kill"\n',
        command=f"tidelog lab run {experiment} --mode {mode.split(',')[0]}",
    )  # fmt: skip


def results() -> Results:
    cells = [
        cell("leader-killed", MODES[0], KEPT),
        cell("leader-killed", MODES[1], KEPT, still_s=6.2),
        cell("leader-killed", MODES[2], KEPT, still_s=6.1),
        cell("leader-killed", MODES[3], KEPT, still_s=0.3),
        cell("power-failure-all", MODES[0], ALLOWED, lost=41, still_s=3.0),
        cell("power-failure-all", MODES[1], ALLOWED, lost=118, still_s=3.1),
        cell("power-failure-all", MODES[2], NOT_RUN),
        cell("power-failure-all", MODES[3], BROKEN, lost=3, still_s=2.4),
    ]
    return Results(
        started="2031-05-04T10:11:12+00:00", seconds=663.2, is_complete=False,
        machine=Machine(cpu="A processor", cores=2, memory_gb=8.2, system="Linux", disk="ext4, 40 GB free"),
        versions={"tidelog": "0.1.0", "python": "3.11.9"}, command="tidelog lab compare", cells=tuple(cells),
    )  # fmt: skip
