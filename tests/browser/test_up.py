"""``tidelog up`` with its page."""

import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser.conftest import Browser, start_page, until
from tidelog.cli.app import run
from tidelog.lab.local.broker import free_port

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = pytest.mark.slow


def test_the_page_comes_and_goes_with_the_cluster(tmp_path: Path, driver: "WebDriver") -> None:
    command = [sys.executable, "-m", "tidelog", "up", "--brokers", "1", "--dir", str(tmp_path)]
    port = free_port()
    command += ["--port", str(port), "--page-port", str(free_port())]
    environment = {name: value for name, value in os.environ.items() if name != "TIDELOG_NO_PAGE"}
    cluster = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert cluster.stdout is not None
    try:
        assert cluster.stdout.readline().startswith("ready ")
        line = cluster.stdout.readline()
        assert line.startswith("page http://127.0.0.1:")
        address = line.removeprefix("page ").strip()
        assert b"<title>Tidelog" in urllib.request.urlopen(address, timeout=10).read()
        _has_its_columns_without_topics(driver, address)
        _says_why_nothing_can_be_cut_off(driver, address)
        _knows_the_past(driver, f"127.0.0.1:{port}")
    finally:
        cluster.terminate()
    assert cluster.wait(30) == 0
    until(lambda: _is_gone(address))


def _has_its_columns_without_topics(driver: "WebDriver", address: str) -> None:
    """What a new cluster shows first."""
    browser = Browser(driver, address.partition("#")[0].rstrip("/"))
    browser.open("/")
    browser.sees(".matrix", "No topics yet.")
    script = "return document.querySelector(arguments[0]).getBoundingClientRect().right"
    assert abs(browser.run(script, "th.broker") - browser.run(script, ".matrix")) < 3


def _says_why_nothing_can_be_cut_off(driver: "WebDriver", address: str) -> None:
    """Brokers have no relay between them unless they are a demo."""
    place, _, token = address.partition("#")
    browser = Browser(driver, place.rstrip("/"))
    driver.get(f"{place}playground#{token}")
    browser.sees(".ground-note", "Those of `tidelog up --demo` do so through a relay")
    assert browser.count("[data-broker='1'] [data-action='kill']") == 1
    assert browser.count("[data-action='cut']") == 0


def _knows_the_past(driver: "WebDriver", bootstrap: str) -> None:
    """A page that was not there when it happened, with the time line's zoom."""
    assert run(["topic", "create", "earlier", "--bootstrap", bootstrap]) == 0
    assert run(["topic", "delete", "earlier", "--yes", "--bootstrap", bootstrap]) == 0
    page = start_page(bootstrap, free_port())
    browser = Browser(driver, page.address)
    try:
        browser.open("/timeline")
        browser.sees(".events", "Topic earlier was created with 1 partition.")
        browser.sees(".events", "Topic earlier was deleted.")
        browser.sees(".events", "Broker 1 joined the cluster.")
        _drag(browser, 0.15, 0.3)
        until(lambda: browser.count(".events li") == 0)  # The first minutes of the span are empty.
        assert browser.count(".segments [aria-pressed=true]") == 0
        for _ in range(5):
            browser.click("[aria-label='Zoom out']")
        browser.sees(".events", "Topic earlier was created with 1 partition.")
        _drag(browser, 0.15, 0.2)
        browser.click(".segments [aria-pressed]")
        browser.sees(".events", "Topic earlier was created with 1 partition.")
        assert browser.complaints() == []
    finally:
        page.end()


def _drag(browser: Browser, begin: float, end: float) -> None:
    """Over the picture, from one share of its width to another."""
    script = """
        const picture = document.querySelector('.lanes'), box = picture.getBoundingClientRect();
        picture.setPointerCapture = () => {};  // There is no such pointer.
        const [begin, end] = [...arguments].map((share) => box.left + share * box.width);
        for (const [kind, at] of [['down', begin], ['move', end], ['up', end]])
            picture.dispatchEvent(new PointerEvent(`pointer${kind}`, {clientX: at}));
    """
    browser.run(script, begin, end)


def _is_gone(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=5)
    except OSError:
        return True
    return False
