"""The control file: what the lab wants to be wrong with the disk and the clock of a running broker.

One small file that both sides map into memory: the broker looks at it before each operation, and a change
counts at once. No message is sent, so a broker that hangs can be changed, too.
"""

import mmap
import struct
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

FILE = "control"

_FORMAT = struct.Struct("<ddiiiq")


class Trouble(NamedTuple):
    """Of one broker."""

    write_ms: float = 0.0  # more for each write
    sync_ms: float = 0.0
    write_error: int = 0  # an errno; 0: none
    sync_error: int = 0
    is_full: int = 0  # whether files can grow no more
    clock_ms: int = 0  # the wall clock is so much ahead


class Control:
    """Made by the lab with :meth:`create`, opened by the broker."""

    def __init__(self, directory: Path) -> None:
        with (directory / FILE).open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _FORMAT.size)

    @classmethod
    def create(cls, directory: Path) -> "Control":
        """Without any trouble, unless there is one already: it is the disk's, not the process's."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / FILE
        if not path.exists():
            path.write_bytes(_FORMAT.pack(*Trouble()))
        return cls(directory)

    def __enter__(self) -> "Control":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._map.close()

    @property
    def trouble(self) -> Trouble:
        return Trouble(*_FORMAT.unpack_from(self._map))

    def change(self, **values: float) -> None:
        changed = self.trouble._replace(**values)  # type: ignore[arg-type]
        _FORMAT.pack_into(self._map, 0, *changed)
