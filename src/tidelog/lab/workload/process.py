"""``python -m tidelog.lab.workload.process JOB``: one producer, one consumer or the plain client.

Owns the life of the process. Its history is appended to, so another process can continue it after a crash.
"""

import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tidelog.lab.history import HistoryWriter, share_clock
from tidelog.lab.workload.jobs import CONSUME, HISTORY_FAILED, PLAIN, PRODUCE, Job, read_job
from tidelog.lab.workload.progress import Reporter


def main(path: Path) -> None:
    # Ctrl-C in a terminal reaches every process; only the parent decides about the end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    job = read_job(path)
    share_clock(job.clock_offset_ns)
    reporter = Reporter(job.partitions)
    try:
        with HistoryWriter(job.history, run=job.run, mode=job.mode, topic=job.topic) as history:
            ROLES[job.role](job, history, reporter)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(HISTORY_FAILED)
    reporter.tell(is_done=True)


def _produce(job: Job, history: HistoryWriter, reporter: Reporter) -> None:
    from tidelog.lab.workload.producing import produce
    from tidelog.lab.workload.resuming import note_left_open
    from tidelog.lab.workload.transacting import transact

    if job.load is None:
        raise ValueError("the job of a producer has no load")
    if job.incarnation:
        note_left_open(job, history)
    (transact if job.load.transactional else produce)(job, job.load, history, reporter)


def _consume(job: Job, history: HistoryWriter, reporter: Reporter) -> None:
    from tidelog.lab.workload.consuming import consume

    if job.group is None:
        raise ValueError("the job of a consumer has no group")
    consume(job, job.group, history, reporter)


def _plain(job: Job, history: HistoryWriter, reporter: Reporter) -> None:
    from tidelog.lab.workload.plain import run

    run(job, history, reporter)


ROLES: dict[str, Callable[[Job, HistoryWriter, Reporter], None]] = {
    PRODUCE: _produce,
    CONSUME: _consume,
    PLAIN: _plain,
}

if __name__ == "__main__":
    main(Path(sys.argv[1]))
