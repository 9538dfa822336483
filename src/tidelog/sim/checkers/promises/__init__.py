"""One module per replication mode: under which fault sets it may lose a record, and its other promises. The
tables in their docstrings are those of the mode's documentation.
"""

from collections.abc import Callable

from tidelog.sim.checkers.promises.isr import IsrPromise
from tidelog.sim.checkers.promises.place import Place
from tidelog.sim.checkers.promises.primary_backup import PrimaryBackupPromise
from tidelog.sim.checkers.promises.promise import Promise, Surroundings
from tidelog.sim.checkers.promises.quorum import QuorumPromise

__all__ = ["PROMISES", "Place", "Promise", "Surroundings"]

PROMISES: dict[str, Callable[[Surroundings], Promise]] = {
    "primary-backup": PrimaryBackupPromise,
    "isr": IsrPromise,
    "quorum": QuorumPromise,
}
"""Replication mode → what it promises."""
