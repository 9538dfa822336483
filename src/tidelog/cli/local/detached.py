"""``tidelog up --detach`` and ``tidelog down``: a cluster in the background.

The same command runs in a session of its own, with its output in ``DIR/up.log``; ``DIR/up.pid`` names its
process while it runs, in the foreground, too.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.failure import CommandFailed, complain
from tidelog.cli.local.broker_settings import LocalBroker
from tidelog.cli.local.cluster import known_brokers
from tidelog.cli.page.commands import LINE
from tidelog.cli.reach import USUAL_DIRECTORY
from tidelog.lab.playground.programs import is_tidelog
from tidelog.planner.faults import brokers_named

LOG, PID = "up.log", "up.pid"
CLIENT_LINE = "clients use "
NO_PAGE = "tidelog: the page did not start"
POLL_S = 0.05
STOP_TIMEOUT_S = 60.0


@contextmanager
def pid_file(directory: Path) -> Iterator[None]:
    path = directory / PID
    path.write_text(f"{os.getpid()}\n")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running_pid(directory: Path) -> int | None:
    try:
        pid = int((directory / PID).read_text())
    except (OSError, ValueError):
        return None
    return pid if is_tidelog(pid) else None


def detach(directory: Path, words: Sequence[str], *, has_page: bool) -> str:
    """Run ``tidelog up`` with these words in the background; its line that begins with "ready", and the one
    with the address of the page.
    """
    if (pid := running_pid(directory)) is not None:
        raise CommandFailed(f"The cluster of {directory} runs already (pid {pid}); `tidelog down` stops it.")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / LOG
    # The token of the page is in it.
    with open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as log:
        begin = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "tidelog", "up", *words],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        return _await_ready(process, path, begin, has_page=has_page)
    except KeyboardInterrupt:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
        complain("Interrupted; what had been started was stopped.")
        raise


def _await_ready(process: "subprocess.Popen[bytes]", path: Path, begin: int, *, has_page: bool) -> str:
    """``begin``: where the log of this start begins."""
    while True:
        said = path.read_bytes()[begin:].decode(errors="replace")
        ready = [line for line in said.splitlines() if line.startswith("ready")]
        page = [line for line in said.splitlines() if line.startswith((LINE, NO_PAGE))]
        if ready and (page or not has_page):
            client = [line for line in said.splitlines() if line.startswith(CLIENT_LINE)]
            return "\n".join([*ready, *client, *(line for line in page if line.startswith(LINE))])
        if process.poll() is not None:
            raise CommandFailed(f"The cluster did not start:\n{said.rstrip() or f'see {path}'}")
        time.sleep(POLL_S)


def _without_parent(directory: Path) -> str | None:
    """What is left of a `tidelog up` that was killed; None: nothing."""
    there = [LocalBroker(directory / f"broker-{number}", number, 0) for number in known_brokers(directory)]
    running = {each.broker_id: pid for each in there if (pid := each.running_pid()) is not None}
    if not running:
        return None
    one = len(running) == 1
    return (
        f"No `tidelog up` runs in {directory}, but {brokers_named(running)} {'does' if one else 'do'}; "
        f"stop {'it' if one else 'them'} with: kill {' '.join(map(str, running.values()))}"
    )


def down(
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Directory of the cluster.")
    ] = USUAL_DIRECTORY,
) -> None:
    """Stop the cluster that `tidelog up` started in a directory, cleanly. Its data stays.

    Example: tidelog down --dir /tmp/tide
    """
    root = directory.expanduser().resolve()
    pid = running_pid(root)
    if pid is None:
        raise CommandFailed(_without_parent(root) or f"No `tidelog up` runs in {directory}; pass its --dir.")
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    print("tidelog: stopping …", file=sys.stderr, flush=True)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while running_pid(root) == pid:
        if time.monotonic() > deadline:
            raise CommandFailed(f"The cluster did not stop within {STOP_TIMEOUT_S:.0f} s; see {root / LOG}.")
        time.sleep(POLL_S)
    print("Stopped; `tidelog up` with the same directory continues with the same data.")
