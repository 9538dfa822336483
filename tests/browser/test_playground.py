"""The playground of ``tidelog up --demo`` in a real browser. The tests share the cluster, in this order."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from browser.conftest import Browser, until
from tidelog.client.cluster_view import view_cluster
from tidelog.lab.local.broker import free_port

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = pytest.mark.slow

WORKER = b"tidelog.lab.playground.process"
RELAY = b"tidelog.lab.playground.relay"


class Demo(NamedTuple):
    directory: Path
    address: str  # as it is printed, with the token
    port: int  # of broker 1

    @property
    def place(self) -> str:
        return self.address.partition("/playground")[0]

    @property
    def token(self) -> str:
        return self.address.partition("#token=")[2]

    def post(self, command: dict[str, object], **headers: str) -> tuple[int, str]:
        host, _, port = self.place.removeprefix("http://").rpartition(":")
        usual = {"content-type": "application/json", "origin": self.place, "x-tidelog-token": self.token}
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", "/api/playground", json.dumps(command), usual | named)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, text

    def in_sync(self, topic: str) -> tuple[int, ...]:
        """As broker 1 knows it."""
        return view_cluster("127.0.0.1", self.port, topic).topics[topic][0].in_sync

    def processes(self, word: bytes) -> list[int]:
        """Of this cluster."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes()
            except OSError:
                continue
            if word in command and str(self.directory).encode() in command:
                found.append(int(path.parent.name))
        return found


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    directory = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "tidelog", "up", "--demo", "--dir", str(directory)]
    port = free_port()
    command += ["--port", str(port), "--page-port", str(free_port())]
    # A broker that was down leads again soon, so that the next test can take it away once more.
    command += ["--set", "leader.imbalance.check.interval.seconds=2"]
    environment = {name: value for name, value in os.environ.items() if name != "TIDELOG_NO_PAGE"}
    up = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert up.stdout is not None
    try:
        assert up.stdout.readline().startswith("ready ")
        line = up.stdout.readline()
        assert "/playground#token=" in line
        demo = Demo(directory, line.removeprefix("page ").strip(), port)
        yield demo
    finally:
        up.terminate()
        assert up.wait(60) == 0
    assert not demo.processes(b"tidelog")  # nothing is left, neither brokers nor loads


@pytest.fixture
def ground(driver: "WebDriver", demo: Demo) -> Iterator[Browser]:
    browser = Browser(driver, demo.place)
    yield browser
    assert browser.complaints() == []


def counter(browser: Browser, load: str, name: str) -> int:
    text = browser.text(f"[data-load='{load}'] [data-counter='{name}'] dd")
    return int(text.replace(",", "") or 0)


def acknowledges(browser: Browser, load: str, more_than: int) -> None:
    until(lambda: counter(browser, load, "acknowledged") > more_than)


def test_the_address_is_all_it_takes(ground: Browser, demo: Demo) -> None:
    ground.visit(demo.address)
    for load in ("isr", "asynchronous", "double-write", "quorum"):
        acknowledges(ground, load, 20)
        assert counter(ground, load, "lost") == 0
    assert ground.run("return location.hash") == ""  # The token is not left in the address.
    ground.sees("[data-load='quorum'] .load-words", "All 3 replicas are in sync")
    until(lambda: ground.count(".plot-line[data-line]") == 4)


def test_strangers_start_and_kill_nothing(demo: Demo) -> None:
    kill: dict[str, object] = {"action": "kill", "broker": 2}
    for headers in (
        {"x_tidelog_token": "wrong"},
        {"origin": "https://evil.example"},
        {"host": "evil.example"},
        {"content_type": "text/plain"},
        {"sec_fetch_site": "cross-site"},
    ):
        assert demo.post(kill, **headers)[0] == 403, headers
    assert len(demo.processes(b"broker.toml")) == 3


@pytest.mark.parametrize(
    "command",
    [
        {"action": "kill", "broker": 99},
        {"action": "kill", "broker": "1; reboot"},
        {"action": "kill", "broker": True},
        {"action": "kill"},
        {"action": "wipe", "broker": 1},
        {"action": "start", "load": "<img src=x>"},
        {},
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(demo: Demo, command: dict[str, object]) -> None:
    status, text = demo.post(command)
    assert status == 400
    assert json.loads(text)["error"].endswith(".")


def test_too_long_and_no_json(demo: Demo) -> None:
    assert demo.post({"action": "x" * 10_000})[0] == 400
    assert json.loads(demo.post({"action": "start", "load": ["[" * 50]})[1])["error"]


def test_kill_a_broker_and_every_mode_answers(ground: Browser, demo: Demo) -> None:
    """All four topics have broker 1 first: isr and quorum elect another, primary-backup waits."""
    ground.open("/")
    ground.sees(".matrix", "playground-isr")
    ground.click(".bar nav a[href='/playground']")
    until(lambda: ground.count("[data-broker='1'] [data-action='kill']"))
    ground.click("[data-broker='1'] [data-action='kill']")
    ground.sees("[data-broker='1'] .pill", "killed")
    ground.sees("[data-load='asynchronous'] .load-rate", "no acknowledgement for")
    ground.sees("[data-load='double-write'] .load-words", "No backup takes over by itself")
    for load in ("isr", "quorum"):
        ground.sees(f"[data-load='{load}'] .load-words", "so writes go on")
        acknowledges(ground, load, counter(ground, load, "acknowledged") + 20)
    assert ground.count(".band.killed") == 1
    ground.open("/timeline")
    ground.sees(".events", "because broker 1 is down")
    ground.open("/playground")
    until(lambda: ground.count("[data-broker='1'] [data-action='start']"))
    ground.click("[data-broker='1'] [data-action='start']")
    ground.sees("[data-broker='1'] .pill", "up")
    for load in ("asynchronous", "double-write"):
        ground.sees(f"[data-load='{load}'] .load-rate", "records / s")


def test_cut_a_broker_off_and_every_mode_answers(ground: Browser, demo: Demo) -> None:
    """Clients still reach broker 1, which leads all four topics."""
    ground.visit(demo.address)
    for load in ("isr", "asynchronous", "double-write", "quorum"):
        ground.sees(f"[data-load='{load}'] .load-rate", "broker 1 leads")
    ground.click("[data-broker='1'] [data-action='cut']")
    ground.sees("[data-broker='1'] .pill", "cut off")
    ground.sees("[data-load='double-write'] .load-words", "A write needs both copies")
    for load in ("isr", "quorum"):  # The others have elected one of them.
        ground.sees(f"[data-load='{load}'] .load-words", "so writes go on")
        assert "broker 1 leads" not in ground.text(f"[data-load='{load}'] .load-rate")
        acknowledges(ground, load, counter(ground, load, "acknowledged") + 20)
    ground.sees("[data-load='asynchronous'] .load-words", "goes on for clients that reach it")
    acknowledges(ground, "asynchronous", counter(ground, "asynchronous", "acknowledged") + 20)
    ground.sees("[data-load='double-write'] .load-rate", "no acknowledgement for")
    assert ground.run("return document.querySelector('.band.cut').dataset.tip").startswith("broker 1 cut off")
    ground.click("[data-broker='1'] [data-action='heal']")
    ground.sees("[data-broker='1'] .pill", "up")
    ground.sees("[data-load='double-write'] .load-rate", "records / s")
    for load in ("isr", "asynchronous", "double-write", "quorum"):
        ground.sees(f"[data-load='{load}'] .load-words", "replicas are in sync; an acknowledgement means")
        assert counter(ground, load, "lost") == 0


def test_a_killed_relay_is_started_again_and_nothing_is_cut_off(ground: Browser, demo: Demo) -> None:
    ground.visit(demo.address)
    until(lambda: ground.count("[data-broker='3'] [data-action='cut']"))
    ground.click("[data-broker='3'] [data-action='cut']")
    ground.sees("[data-broker='3'] .pill", "cut off")
    (relay,) = demo.processes(RELAY)
    os.kill(relay, 9)
    ground.sees("[data-broker='3'] .pill", "up")
    until(lambda: [pid for pid in demo.processes(RELAY) if pid != relay])
    ground.sees("[data-load='isr'] .load-words", "All 3 replicas are in sync")
    for load in ("isr", "asynchronous", "double-write", "quorum"):
        acknowledges(ground, load, counter(ground, load, "acknowledged") + 20)


def test_freeze_and_thaw(ground: Browser, demo: Demo) -> None:
    ground.visit(demo.address)
    until(lambda: ground.count("[data-broker='3'] [data-action='freeze']"))
    ground.click("[data-broker='3'] [data-action='freeze']")
    ground.sees("[data-broker='3'] .pill", "frozen")
    ground.click("[data-broker='3'] [data-action='thaw']")
    ground.sees("[data-broker='3'] .pill", "up")


def test_every_record_is_read_back(ground: Browser, demo: Demo) -> None:
    ground.visit(demo.address)
    until(lambda: ground.count("[data-load='isr'] .load-top button"))
    ground.click("[data-load='isr'] .load-top button")
    ground.sees("[data-load='isr'] .load-verdict", "are there, once and in order")
    assert counter(ground, "isr", "acknowledged") > 20
    ground.click("[data-load='isr'] .load-top button")  # and once more
    ground.sees("[data-load='isr'] .load-rate", "records / s")


def test_phone_width(ground: Browser) -> None:
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    ground.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        ground.open("/playground")
        until(lambda: ground.count(".ground-load") == 4)
        assert ground.run("return document.documentElement.scrollWidth") <= 390
    finally:
        ground.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_killed_page_ends_the_loads_and_leaves_nothing_broken(driver: "WebDriver", demo: Demo) -> None:
    """The last test of the file: it ends the page. Another one is started with the same directory."""
    assert demo.post({"action": "cut", "broker": 3})[0] == 200
    until(lambda: 3 not in demo.in_sync("playground-isr"))
    assert demo.post({"action": "freeze", "broker": 2})[0] == 200
    (page,) = [pid for pid in demo.processes(b"--playground") if pid not in demo.processes(WORKER)]
    assert demo.processes(WORKER)
    os.kill(page, 9)
    until(lambda: not demo.processes(WORKER))
    frozen = [
        pid
        for pid in demo.processes(b"broker.toml")
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    ]
    assert not frozen
    until(lambda: 3 in demo.in_sync("playground-isr"))
    port = demo.place.rpartition(":")[2]
    command = [sys.executable, "-m", "tidelog", "page", "--port", port, "--playground", str(demo.directory)]
    again = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert again.stdout is not None
        address = again.stdout.readline().removeprefix("page ").strip()
        assert address.startswith(demo.place)
        assert demo.post({"action": "open"})[0] == 403  # The old token is of no use.
        browser = Browser(driver, demo.place)
        driver.get(address.replace("/#", "/playground#"))
        until(lambda: browser.count("[data-load='quorum']"))
        browser.sees("[data-load='quorum'] .load-rate", "not running")
    finally:
        again.terminate()
        again.wait(10)
