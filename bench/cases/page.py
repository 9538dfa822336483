"""The page in headless Chromium: first paint, until the cluster is drawn, frames at rest and while scrolling,
and how soon a killed broker is shown. Needs Chromium with its driver.

Each opening has an empty cache. A kill is timed from the signal until the page's column says so, both by this
machine's clock.
"""

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.lineup import Options, work_directory
from bench.process import BenchError, wait_until
from bench.report import Check, Column, Report
from tidelog.testing import Cluster, running_cluster

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

BROKERS = 3
SIZES = (12, 1_000, 10_000)  # partitions
QUICK_SIZES = (12, 1_000)
PARTITIONS_OF_A_TOPIC = 1_000
OPENINGS, QUICK_OPENINGS = 10, 3
KILLS, QUICK_KILLS = 5, 2
FRAMES_S = 5.0
GIVE_UP_S = 120.0
COLUMNS = (
    Column("paint_ms", "first paint ms", ",.0f"),
    Column("paint_worst_ms", "worst", ",.0f"),
    Column("drawn_ms", "drawn ms", ",.0f"),
    Column("kb", "KB loaded", ",.0f"),
    Column("rest_ms", "frame p99 ms", ",.0f"),
    Column("scroll_ms", "scrolling p99 ms", ",.0f"),
    Column("shown_ms", "kill shown after ms", ",.0f"),
    Column("shown_worst_ms", "worst", ",.0f"),
)
TARGETS = (
    ("first paint: worst", "paint_worst_ms", 12, 500, "ms"),
    ("everything that is loaded", "kb", 12, 300, "KB"),
    ("a killed broker is shown: worst", "shown_worst_ms", 12, 1000, "ms"),
    ("frames while scrolling 1,000 partitions: p99", "scroll_ms", 1000, 100, "ms"),
)
SWITCHES = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--window-size=1400,900",
)  # fmt: skip
FRAMES = """
const [seconds, scrolls, done] = arguments, frames = [];
let last = performance.now();
const end = last + seconds * 1000;
function next(now) {
  frames.push(now - last);
  last = now;
  if (scrolls) window.scrollBy(0, frames.length % 200 < 100 ? 40 : -40);
  if (now < end) requestAnimationFrame(next); else done(frames.slice(1));
}
requestAnimationFrame(next);
"""
PAINT = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
LOADED = """
return [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
  .reduce((sum, each) => sum + each.decodedBodySize, 0)
"""
CELLS = "return document.querySelectorAll('.matrix .cell').length"
DOWN = "return document.querySelectorAll('th.broker[data-state=silent]').length"


def run(options: Options) -> list[Report]:
    report = Report("the page in headless Chromium", COLUMNS, ("partitions",))
    with work_directory() as directory, _browser() as driver:
        for size in QUICK_SIZES if options.quick else SIZES:
            where = Path(directory) / str(size)
            where.mkdir()
            with options.console.status(f"{size:,} partitions"), running_cluster(where, BROKERS) as cluster:
                for number in range(max(size // PARTITIONS_OF_A_TOPIC, 1)):
                    count = min(size, PARTITIONS_OF_A_TOPIC)
                    cluster.create_topic(f"bench-page-{number}", partitions=count, replicas=BROKERS)
                with _page(cluster) as address:
                    found = _measure(driver, cluster, address, size, options)
            report.rows.append({"partitions": size} | found)
    report.checks = [
        Check(name, report.value(key, partitions=size), bound, False, unit)
        for name, key, size, bound, unit in TARGETS
    ]
    return [report]


def _measure(
    driver: "WebDriver", cluster: Cluster, address: str, size: int, options: Options
) -> dict[str, float]:
    cells = size * BROKERS
    paints, drawn = [], []
    for _ in range(QUICK_OPENINGS if options.quick else OPENINGS):
        driver.get("about:blank")
        driver.execute_cdp_cmd("Network.clearBrowserCache", {})
        began = time.perf_counter()
        driver.get(address)
        _until(driver, CELLS, cells)
        drawn.append((time.perf_counter() - began) * 1000)
        wait_until(lambda: _run(driver, PAINT) is not None, GIVE_UP_S, "a first paint", pause=0.02)
        paints.append(float(_run(driver, PAINT)))
    kb = float(_run(driver, LOADED)) / 1000
    frames = {scrolls: driver.execute_async_script(FRAMES, FRAMES_S, scrolls) for scrolls in (False, True)}
    shown = [_kill(driver, cluster) for _ in range(QUICK_KILLS if options.quick else KILLS)]
    return {
        "paint_ms": statistics.median(paints),
        "paint_worst_ms": max(paints),
        "drawn_ms": statistics.median(drawn),
        "kb": kb,
        "rest_ms": _p99(frames[False]),
        "scroll_ms": _p99(frames[True]),
        "shown_ms": statistics.median(shown),
        "shown_worst_ms": max(shown),
    }


def _kill(driver: "WebDriver", cluster: Cluster) -> float:
    """One that is not the active controller."""
    active = cluster.controller()
    victim = next(cluster[node] for node in range(1, BROKERS + 1) if cluster[node] is not active)
    began = time.perf_counter()
    victim.kill()
    _until(driver, DOWN, 1)
    took_ms = (time.perf_counter() - began) * 1000
    victim.start()
    _until(driver, DOWN, 0)
    return took_ms


def _until(driver: "WebDriver", script: str, wanted: int) -> None:
    wait_until(lambda: _run(driver, script) == wanted, GIVE_UP_S, f"{wanted} of: {script}", pause=0.005)


def _run(driver: "WebDriver", script: str) -> Any:
    return driver.execute_script(script)


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)] if values else 0.0


@contextmanager
def _page(cluster: Cluster) -> Iterator[str]:
    command = [sys.executable, "-m", "tidelog", "page", "--bootstrap", cluster.bootstrap, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("page ").strip()
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def _browser() -> "Iterator[WebDriver]":
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options as ChromeOptions
    from selenium.webdriver.chrome.service import Service

    binary, service = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or service is None:
        raise BenchError("There is no Chromium with its driver: apt install chromium chromium-driver.")
    chrome = ChromeOptions()
    chrome.binary_location = binary
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for switch in (*SWITCHES, f"--user-data-dir={profile}"):
            chrome.add_argument(switch)
        driver = webdriver.Chrome(options=chrome, service=Service(service))
        try:
            driver.set_script_timeout(GIVE_UP_S)
            yield driver
        finally:
            driver.quit()
