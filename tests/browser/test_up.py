"""``tidelog up`` with its page."""

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from browser.conftest import until
from tidelog.lab.local.broker import free_port

pytestmark = pytest.mark.slow


def test_the_page_comes_and_goes_with_the_cluster(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tidelog", "up", "--brokers", "1", "--dir", str(tmp_path)]
    command += ["--port", str(free_port()), "--page-port", str(free_port())]
    environment = {name: value for name, value in os.environ.items() if name != "TIDELOG_NO_PAGE"}
    cluster = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert cluster.stdout is not None
    try:
        assert cluster.stdout.readline().startswith("ready ")
        line = cluster.stdout.readline()
        assert line.startswith("page http://127.0.0.1:")
        address = line.removeprefix("page ").strip()
        assert b"<title>Tidelog" in urllib.request.urlopen(address, timeout=10).read()
    finally:
        cluster.terminate()
    assert cluster.wait(30) == 0
    until(lambda: _is_gone(address))


def _is_gone(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=5)
    except OSError:
        return True
    return False
