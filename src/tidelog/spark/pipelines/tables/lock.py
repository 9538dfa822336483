"""One run at a time for each table: a file that says who has it.

Owns ``_lock.json`` of the table. The lock keeps two runs from doing the same work and tells the user; it does
not keep the table correct, which conditional changes do (:mod:`tidelog.spark.pipelines.tables.log`). So it
may be wrong in the rarest races.

A lock is taken over if its owner is dead. On the owner's own machine that is known at once; elsewhere its
owner must not have renewed it for :data:`EXPIRY_S`. Clocks that differ by more than that make a lock seem to
be dead.
"""

import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread

from tidelog.spark.pipelines.tables import Say, TableLocked
from tidelog.spark.pipelines.tables.filesystem import Files

LOCK = "_lock.json"
RENEWAL_S = 20.0
_BREAKING = "`tidelog pipeline archive … --break-lock`"  # compact and expire cannot.
EXPIRY_S = 300.0


@dataclass(frozen=True, slots=True)
class Owner:
    run: str  # Unique.
    host: str
    pid: int
    started: str  # The process, as its system counts; empty if that is unknown. Process ids are reused.
    since: float  # Seconds since 1970.
    renewed: float

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @property
    def is_here(self) -> bool:
        return self.host == socket.gethostname()

    @property
    def is_dead(self) -> bool:
        if self.is_here:
            return not _runs(self.pid, self.started)
        # In the future, too: a clock that was ahead would otherwise keep the lock until then.
        return abs(time.time() - self.renewed) > EXPIRY_S

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since, UTC).isoformat(timespec="seconds")
        return f"process {self.pid} on {self.host}, since {since}"


@contextmanager
def locked(files: Files, target: str, *, breaks: bool, say: Say) -> Iterator[None]:
    """:class:`TableLocked` if another run has the table. ``breaks``: take the lock in any case."""
    now = time.time()
    owner = Owner(uuid.uuid4().hex, socket.gethostname(), os.getpid(), _started(os.getpid()), now, now)
    _take(files, target, owner, breaks, say)
    done = Event()
    renewal = Thread(target=_renew, args=(files, owner, done), name="table lock", daemon=True)
    renewal.start()
    try:
        yield
    finally:
        done.set()
        renewal.join()
        _release(files, owner)


def _take(files: Files, target: str, owner: Owner, breaks: bool, say: Say) -> None:
    if files.create(LOCK, owner.to_json()):
        return
    found = None if breaks and _is_damaged(files) else read_owner(files)
    if found is not None:
        if not breaks and not found.is_dead:
            way = (
                "wait until it ends"
                if found.is_here
                else f"wait until it ends, or until {EXPIRY_S / 60:g} minutes after it died"
            )
            raise TableLocked(f"Another run has {target}: {found}; {way}, or break its lock ({_BREAKING}).")
        say(f"The lock of {found} was {'broken' if breaks else 'taken over: that run is dead'}.")
    files.delete(LOCK)
    if not files.create(LOCK, owner.to_json()):
        raise TableLocked(f"Another run took over {target} at the same moment; wait until it ends.")


def read_owner(files: Files) -> Owner | None:
    try:
        return Owner(**json.loads(files.read(LOCK)))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise TableLocked(
            f"The lock {LOCK} cannot be read: if no other run has the table, break the lock ({_BREAKING})."
        ) from None


def _is_damaged(files: Files) -> bool:
    try:
        read_owner(files)
    except TableLocked:
        return True
    return False


def _renew(files: Files, owner: Owner, done: Event) -> None:
    while not done.wait(RENEWAL_S):
        # A file system that fails now may answer the next time; the lock lasts for many renewals.
        with suppress(Exception):
            found = read_owner(files)
            if found is None or found.run != owner.run:
                return  # broken; changes are conditional, so nothing is wrong with going on
            renewed = asdict(owner) | {"renewed": time.time()}
            files.write(LOCK, json.dumps(renewed).encode())


def _release(files: Files, owner: Owner) -> None:
    found = None if _is_damaged(files) else read_owner(files)
    if found is not None and found.run == owner.run:
        files.delete(LOCK)


def _runs(pid: int, started: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return not started or _started(pid) in ("", started)


def _started(pid: int) -> str:
    """The boot and the time after it, from Linux' ``/proc``."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return f"{boot}:{fields[19]}"
