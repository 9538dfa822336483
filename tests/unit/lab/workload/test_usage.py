"""A process's figures, and of one that is gone."""

import os
import subprocess
import sys

from tidelog.lab.workload.usage import used_by


def test_this_process_uses_something() -> None:
    used = used_by(os.getpid())
    assert used is not None and used.cpu_us > 0 and used.rss_bytes > 1 << 20


def test_one_that_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert used_by(process.pid) is None
