"""``--profile``: where Tidelog's broker spends its time.

Runs the broker under cProfile (which slows it: read the order of the functions, not the rates) and, where the
Linux tool ``perf`` is installed, samples its native frames while it is being measured.
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

from bench.servers import Server

_SHOWN_FUNCTIONS = 35
_SHOWN_SYMBOLS = 30


class Profiler:
    def __init__(self, directory: Path, enabled: bool) -> None:
        self.cprofile_output = directory / "tidelog.cprofile" if enabled else None
        self._perf = shutil.which("perf") if enabled else None
        self._perf_output = directory / "tidelog.perf"

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
            str(server.pid),
        ]
        sampler = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            sampler.send_signal(signal.SIGINT)
            sampler.wait(30)

    def show(self, console: Console) -> None:
        """Call after the broker has stopped: cProfile writes its file at exit."""
        if self.cprofile_output is None:
            return
        if self.cprofile_output.exists():
            text = io.StringIO()
            stats = pstats.Stats(str(self.cprofile_output), stream=text)
            stats.strip_dirs().sort_stats("tottime").print_stats(_SHOWN_FUNCTIONS)
            console.print(text.getvalue(), highlight=False, markup=False)
        else:
            console.print("The broker left no cProfile output; it did not end by itself.")
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
            console.print("\n".join(lines[:_SHOWN_SYMBOLS]), highlight=False, markup=False)
