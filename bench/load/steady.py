"""The lab's steady load, for a bench: waiting that ends with one sentence, and a history where one is asked
for.

Owns where the events of the benches go: a file for each run and mode in the directory of ``--history``, as
``tidelog pipeline indicators`` reads them.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.process import BenchError, wait_until
from tidelog.lab import load
from tidelog.lab.history import HistoryWriter
from tidelog.lab.load import LoadFailed


class SteadyLoad(load.SteadyLoad):
    def start(self) -> None:
        super().start()
        self.wait_for_writes(0.0, 30)

    def wait_for_writes(self, since: float, seconds: float) -> None:
        """Until every partition acknowledged a write that was sent after ``since``."""

        def wrote() -> bool:
            try:
                return self.wrote_since(since)
            except (LoadFailed, OSError) as error:
                raise BenchError(str(error)) from error

        wait_until(wrote, seconds, "writing again after the fault")


@contextmanager
def recording(directory: Path | None, run: str, mode: str) -> Iterator[HistoryWriter | None]:
    """A new history of the run, or none if there is no directory for it."""
    if directory is None:
        yield None
        return
    path = directory / f"{_file_name(run)}--{_file_name(mode)}.jsonl"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # The run before was another one of the same name.
        with HistoryWriter(path, run=run, mode=mode) as history:
            yield history
    except (LoadFailed, OSError) as error:
        raise BenchError(f"there is no whole history {path}: {error}") from error


def _file_name(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
