"""A page with ``--admin``: changes with their preview, in this order."""

import http.client
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from browser.conftest import Browser, PageProcess, start_page, until
from tidelog.lab.local.broker import free_port
from tidelog.testing import Cluster

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)>'\"&"


@pytest.fixture(scope="module")
def admin_page(cluster: Cluster) -> Iterator[PageProcess]:
    page = start_page(cluster.bootstrap, free_port(), "--admin")
    yield page
    page.end()


@pytest.fixture
def admin(driver: "WebDriver", admin_page: PageProcess) -> Iterator[Browser]:
    browser = Browser(driver, admin_page.address)
    browser.open(f"/topics#token={admin_page.token}")
    browser.reload()
    browser.sees("#live", "live")
    yield browser
    # A refused change is an error in the console; a script that fails is another one.
    assert [each for each in browser.complaints() if "status of 400" not in each] == []


def send(page: PageProcess, path: str, body: dict[str, Any], **headers: str) -> tuple[int, dict[str, Any]]:
    host, _, port = page.address.removeprefix("http://").rpartition(":")
    usual = {"content-type": "application/json", "origin": page.address, "x-tidelog-token": page.token}
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST", f"/api/change/{path}", json.dumps(body), usual | named)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, json.loads(text) if text.startswith("{") else {"error": text}


def fill(browser: Browser, name: str, value: str) -> None:
    script = (
        "const input = document.getElementById(`field-${arguments[0]}`); input.value = arguments[1]; "
        "input.dispatchEvent(new Event('input'))"
    )
    browser.run(script, name, value)


def look(browser: Browser) -> None:
    browser.click("dialog .look")


def apply(browser: Browser) -> None:
    until(lambda: not browser.run("return document.querySelector('dialog .apply').disabled"))
    browser.click("dialog .apply")
    until(lambda: browser.count("dialog .done"))
    browser.run("document.querySelector('dialog').close()")


def topics(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = (
        AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=20).topics
    )
    return found


def test_create_with_its_promise(admin: Browser, cluster: Cluster) -> None:
    until(lambda: admin.count(".changes button"))
    admin.click(".view-head .changes button")
    fill(admin, "name", "orders")
    fill(admin, "mode", "quorum")
    fill(admin, "partitions", "2")
    fill(admin, "settings", "retention.ms=3600000")
    look(admin)
    admin.sees(".compared", "when it is on 2 of 3 replicas and synced to disk")
    assert "orders" not in topics(cluster)  # A preview changes nothing.
    apply(admin)
    until(lambda: "orders" in topics(cluster))
    assert len(topics(cluster)["orders"].partitions) == 2
    admin.sees(".list tbody", "orders")


def test_what_the_cluster_refuses_is_said_before(admin: Browser) -> None:
    until(lambda: admin.count(".changes button"))
    admin.click(".view-head .changes button")
    fill(admin, "name", HOSTILE)
    look(admin)
    admin.sees(".refused", "INVALID_TOPIC")
    assert admin.count("dialog img") == 0
    assert admin.run("return document.querySelector('dialog .apply').disabled")
    fill(admin, "name", "fine")
    fill(admin, "settings", "no.such.setting=1")
    look(admin)
    admin.sees(".refused", "no.such.setting")


def test_a_weaker_promise_has_to_be_agreed_to(admin: Browser, cluster: Cluster) -> None:
    admin.open("/topic/orders")
    until(lambda: admin.count(".topic-title .changes button"))
    admin.click(".topic-title .changes button")
    fill(admin, "mode", "primary-backup")
    fill(admin, "settings", "min.insync.replicas=1")
    look(admin)
    admin.sees(".weaker", "no longer synced to disk")
    assert admin.run("return document.querySelector('dialog .apply').disabled")
    admin.click(".agree input")
    apply(admin)
    admin.sees(".mode-words", "primary-backup")


def test_write_a_message(admin: Browser) -> None:
    admin.open("/topic/orders#messages")
    until(lambda: admin.count(".messages-tools button:last-child"))
    admin.click(".messages-tools button:last-child")
    fill(admin, "partition", "0")
    fill(admin, "key", "k")
    fill(admin, "value", HOSTILE)
    fill(admin, "headers", "trace=42")
    look(admin)
    apply(admin)
    admin.sees(".messages tbody", HOSTILE)
    assert admin.count("main img") == 0


def test_another_leader_and_a_move(admin: Browser, admin_page: PageProcess, cluster: Cluster) -> None:
    before = cluster.partition("orders", 1)
    to = next(each for each in before.replicas if each != before.leader)
    change = {"kind": "promote", "name": "orders", "partition": 1, "to": to}
    status, found = send(admin_page, "preview", change)
    assert (status, found["words"].startswith(f"Broker {to} leads orders-1")) == (200, True), found
    assert send(admin_page, "apply", change)[0] == 200
    until(lambda: cluster.partition("orders", 1).leader == to)
    admin.open("/topic/orders")
    until(lambda: admin.count(".partitions tbody tr:nth-child(2) .tools button"))
    admin.click(".partitions tbody tr:nth-child(2) .tools button")
    fill(admin, "replicas", ", ".join(map(str, [to, *(each for each in before.replicas if each != to)][:2])))
    look(admin)
    admin.sees(".weaker", "tolerated")
    admin.click(".agree input")
    apply(admin)
    until(lambda: len(cluster.partition("orders", 1).replicas) == 2)


def test_offsets_of_a_group(admin: Browser, cluster: Cluster, admin_page: PageProcess) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(10):
        producer.produce("orders", str(number), partition=0)
    assert producer.flush(20) == 0
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": HOSTILE, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    until(lambda: len([each for each in consumer.consume(20, 0.2) if each.error() is None]) >= 1)
    consumer.commit(asynchronous=False)
    change = {"kind": "reset-offsets", "group": HOSTILE, "topic": "orders", "to": "earliest"}
    status, found = send(admin_page, "preview", change)
    assert (status, "has members (1)" in found["error"]) == (400, True), found
    consumer.close()
    status, found = until(lambda: (answer := send(admin_page, "preview", change))[0] == 200 and answer)
    assert "records are read again, 0 are skipped" in found["words"]
    assert [row[:2] for row in found["rows"]] == [["orders", 0], ["orders", 1]]
    admin.open(f"/group?id={HOSTILE.replace('&', '%26')}")
    until(lambda: admin.count(".group-detail .changes button"))
    admin.click(".group-detail .changes button")
    fill(admin, "to", "earliest")
    look(admin)
    admin.sees(".preview-rows", "orders")
    apply(admin)
    assert admin.count("img") == 0
    again = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": HOSTILE})
    again.subscribe(["orders"])
    assert until(lambda: next(iter(again.consume(1, 0.2)), None)).value() == HOSTILE.encode()  # the first one
    again.close()


def test_phone_width(admin: Browser) -> None:
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    admin.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        admin.open("/topic/orders")
        until(lambda: admin.count(".partitions .tools button"))
        assert admin.run("return document.documentElement.scrollWidth") <= 390
        admin.click(".topic-title .changes button")
        assert admin.run("return document.querySelector('dialog').getBoundingClientRect().right") <= 390
        admin.run("document.querySelector('dialog').close()")
    finally:
        admin.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_drain_and_back(admin_page: PageProcess, cluster: Cluster) -> None:
    for undo in (False, True):
        status, found = send(admin_page, "preview", {"kind": "drain", "broker": 3, "undo": undo})
        assert status == 200, found
        assert send(admin_page, "apply", {"kind": "drain", "broker": 3, "undo": undo})[0] == 200


def test_delete_needs_the_name(admin: Browser, cluster: Cluster) -> None:
    admin.open("/topic/orders")
    until(lambda: admin.count(".topic-title .changes button:nth-child(2)"))
    admin.click(".topic-title .changes button:nth-child(2)")
    fill(admin, "typed", "order")
    look(admin)
    admin.sees(".refused", "Type the name")
    fill(admin, "typed", "orders")
    look(admin)
    admin.sees(".weaker", "no way back")
    admin.click(".agree input")
    apply(admin)
    until(lambda: "orders" not in topics(cluster))


def test_strangers_change_nothing(admin_page: PageProcess, page: PageProcess, cluster: Cluster) -> None:
    create = {"kind": "create-topic", "name": "strange"}
    for headers in (
        {"x_tidelog_token": "wrong"},
        {"origin": "https://evil.example"},
        {"host": "evil.example"},
        {"content_type": "text/plain"},
        {"sec_fetch_site": "same-site"},
    ):
        assert send(admin_page, "apply", create, **headers)[0] == 403, headers
    assert send(page, "apply", create)[0] == 403  # the page without --admin
    assert "strange" not in topics(cluster)


@pytest.mark.parametrize(
    "said",
    [{}, {"kind": "create-topic"}, {"kind": "move", "name": "orders", "partition": 9, "replicas": [77]}],
)
def test_what_makes_no_sense_is_a_sentence(admin_page: PageProcess, said: dict[str, Any]) -> None:
    for path in ("preview", "apply"):
        status, found = send(admin_page, path, said)
        assert (status, found["error"].endswith(".")) == (400, True), found
