"""``--profile``: where Tidelog's broker spends its time.

``python`` runs the broker under cProfile, which slows it a few times: read the order of the functions, not
the rates. ``native`` samples it with the Linux tool ``perf`` while it is being measured. Not both at once,
because then one shows the other.
"""

import io
import pstats
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from bench.process import BenchError
from bench.servers import Server

_SHOWN_FUNCTIONS = 35
_SHOWN_SYMBOLS = 30


class Profiler:
    def __init__(self, directory: Path, kind: str | None) -> None:
        self.cprofile_output = directory / "tidelog.cprofile" if kind == "python" else None
        self._perf = shutil.which("perf") if kind == "native" else None
        self._perf_output = directory / "tidelog.perf"
        if kind == "native" and self._perf is None:
            raise BenchError("the program perf is not installed here; try --profile python")

    @contextmanager
    def around(self, server: Server) -> Iterator[None]:
        """Sample the broker natively during one measurement; the last one is what is shown."""
        if self._perf is None or server.name != "tidelog":
            yield
            return
        command = [
            self._perf,
            "record",
            "-q",
            "-F",
            "999",
            "-o",
            str(self._perf_output),
            "-p",
            ",".join(map(str, server.pids)),
        ]
        sampler = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            sampler.send_signal(signal.SIGINT)
            sampler.wait(30)

    def show(self, console: Console) -> None:
        """Call after the broker has stopped: cProfile writes its file at exit."""
        if self.cprofile_output is not None and self.cprofile_output.exists():
            text = io.StringIO()
            stats = pstats.Stats(str(self.cprofile_output), stream=text)
            stats.strip_dirs().sort_stats("tottime").print_stats(_SHOWN_FUNCTIONS)
            self._print(console, text.getvalue())
        elif self.cprofile_output is not None:
            self._print(console, "The broker left no profile; it did not end by itself.")
        if self._perf is not None and self._perf_output.exists():
            command = [
                self._perf,
                "report",
                "--stdio",
                "-i",
                str(self._perf_output),
                "--percent-limit",
                "0.5",
            ]
            found = subprocess.run(command, capture_output=True, text=True, check=False)
            lines = [line for line in found.stdout.splitlines() if line.strip() and not line.startswith("#")]
            self._print(console, "\n".join(lines[:_SHOWN_SYMBOLS]))

    def _print(self, console: Console, text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)
