"""A cluster, a page about it and a real browser, shared by the tests of a file."""

import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tidelog.lab.local.broker import free_port
from tidelog.testing import Cluster, running_cluster

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WITHIN_S = 60.0
NETWORK_CHANGED = "ERR_NETWORK_CHANGED"
LOADS_MAX = 20
SWITCHES = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--window-size=1400,900",
)  # fmt: skip


class PageProcess(NamedTuple):
    process: subprocess.Popen[str]
    address: str  # without a slash at the end
    token: str = ""  # empty: it is for reading only

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(10)


def start_page(bootstrap: str, port: int, *words: str) -> PageProcess:
    command = [sys.executable, "-m", "tidelog", "page", "--bootstrap", bootstrap, "--port", str(port), *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("page http://127.0.0.1:"), line
    address, _, token = line.removeprefix("page ").strip().partition("#token=")
    page = PageProcess(process, address.rstrip("/"), token)
    until(lambda: _is_ready(page.address))
    return page


def _is_ready(address: str) -> bool:
    try:
        return urllib.request.urlopen(f"{address}/health", timeout=5).status == 200  # type: ignore[no-any-return]
    except urllib.error.URLError:
        return False


def until(condition: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    """What the condition returns, once it is true."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("page"), 3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def page(cluster: Cluster) -> Iterator[PageProcess]:
    page = start_page(cluster.bootstrap, free_port())
    yield page
    page.end()


class Browser:
    """Chromium, with what the tests ask of it."""

    def __init__(self, driver: "WebDriver", address: str) -> None:
        self.driver = driver
        self._address = address
        self._complaints: list[str] = []
        self._hear()
        self._complaints.clear()  # what an earlier test left

    def open(self, path: str) -> None:
        self.visit(f"{self._address}{path}")

    def visit(self, address: str) -> None:
        self._load(lambda: self.driver.get(address))

    def reload(self) -> None:
        self._load(self.driver.refresh)

    def _load(self, load: Callable[[], None]) -> None:
        """Other tests make network interfaces meanwhile. Chromium then gives up whatever it is loading, as on
        a laptop that changes its network, and a person loads the page again.
        """
        from selenium.common.exceptions import WebDriverException

        for _ in range(LOADS_MAX):
            try:
                load()
            except WebDriverException as error:
                if NETWORK_CHANGED not in str(error):
                    raise
            else:
                if not self._hear():
                    return
            time.sleep(0.2)

    def _hear(self) -> bool:
        """Read the console. Returns whether something was not loaded because the network changed."""
        heard = [each["message"] for each in self.driver.get_log("browser") if each["level"] == "SEVERE"]  # type: ignore[no-untyped-call]
        self._complaints += [each for each in heard if NETWORK_CHANGED not in each]
        return any(NETWORK_CHANGED in each for each in heard)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        """Of all elements that match, one per line; of hidden ones, too."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent).join('\\n')"
        )
        return str(self.run(script, selector))

    def count(self, selector: str) -> int:
        return int(self.run("return document.querySelectorAll(arguments[0]).length", selector))

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def choose(self, selector: str, value: str) -> None:
        """Of a list, as a person does."""
        script = (
            "const list = document.querySelector(arguments[0]); list.value = arguments[1]; "
            "list.dispatchEvent(new Event('change'))"
        )
        self.run(script, selector, value)

    def sees(self, selector: str, text: str, within_s: float = WITHIN_S) -> None:
        deadline = time.monotonic() + within_s
        while text not in (found := self.text(selector)):
            assert time.monotonic() < deadline, f"'{text}' is not in {selector}: {found}"
            time.sleep(0.02)

    def complaints(self) -> list[str]:
        """Errors in the console: of scripts, and of the content security policy."""
        self._hear()
        told, self._complaints = self._complaints, []
        return told


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[WebDriver]":
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    service = shutil.which("chromedriver")
    if binary is None or service is None:
        pytest.skip("there is no Chromium with its driver; on Debian: apt install chromium chromium-driver")
    # Here, because it takes a while, and the tests of other directories do not need it.
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = binary
    profile: Path = tmp_path_factory.mktemp("profile")
    for switch in (*SWITCHES, f"--user-data-dir={profile}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(service))
    yield driver
    driver.quit()


@pytest.fixture
def browser(driver: "WebDriver", page: PageProcess) -> Iterator[Browser]:
    browser = Browser(driver, page.address)
    yield browser
    assert browser.complaints() == []
