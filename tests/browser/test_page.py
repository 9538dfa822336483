"""The page in a real browser, about a real cluster. The tests share both, in this order."""

import http.client
import time
from contextlib import ExitStack, closing

import pytest
from confluent_kafka import Consumer, Producer

from browser.conftest import Browser, PageProcess, start_page, until
from tidelog.cli.app import run
from tidelog.page.events import BROWSERS_MAX
from tidelog.testing import Cluster

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[31m'\"&"
LARGE_BYTES = 5_000_000
# A second is promised. Other tests run on the same processors.
SHOWN_WITHIN_S = 3.0
PAINTED_WITHIN_MS = 3000  # and half a second here

TOPICS = {
    "orders": ("--partitions", "6", "--mode", "isr"),
    "payments": ("--partitions", "3", "--mode", "quorum"),
    "audit": ("--partitions", "3", "--mode", "primary-backup", "--copies", "2"),
}


@pytest.fixture(scope="module", autouse=True)
def topics(cluster: Cluster) -> None:
    for name, words in TOPICS.items():
        create = ["topic", "create", name, "--replicas", "3", *words, "--bootstrap", cluster.bootstrap]
        assert run(create) == 0


def write(cluster: Cluster, topic: str, *records: tuple[str, bytes], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 2 * LARGE_BYTES})
    for key, value in records:
        producer.produce(topic, value, key, partition, headers=[(HOSTILE, HOSTILE.encode())])
    assert producer.flush(20) == 0


def test_the_cluster_at_a_glance(browser: Browser) -> None:
    browser.open("/")
    browser.sees(".status", "Every replica is in sync")
    assert browser.count("th.broker") == 3
    until(lambda: browser.count(".matrix tbody tr.mode-isr .cell") == 18)
    assert browser.count("tr.mode-isr .cell.leader") == 6
    assert (
        browser.text("tr.mode-quorum .cell.leader") == "Q\nQ\nQ"
    )  # told apart by letter, not by colour alone
    browser.sees(".promise", "survives 1 more death")
    browser.sees("tr.mode-isr td .unseen", "leads")  # for screen readers
    browser.sees("#live", "live")


def test_small_and_from_here_alone(browser: Browser, page: PageProcess) -> None:
    browser.open("/")
    browser.sees("#live", "live")
    script = """
        return ['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))
            .map((each) => [each.name, each.decodedBodySize])
    """
    loaded = browser.run(script)
    assert all(name.startswith(f"{page.address}/") for name, _ in loaded)
    assert 50_000 < sum(size for _, size in loaded) < 300_000
    paint = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    assert until(lambda: browser.run(paint)) < PAINTED_WITHIN_MS


def test_every_view_by_keyboard_and_address(browser: Browser) -> None:
    browser.open("/")
    for path, heading in {
        "/topics": "Topics",
        "/groups": "Consumer groups",
        "/timeline": "Time line",
        "/what-if": "What if",
    }.items():
        browser.click(f".bar nav a[href='{path}']")
        browser.sees("h1", heading)
        assert browser.run("return location.pathname") == path
        assert browser.run("return document.activeElement.tagName") == "H1"
    browser.open("/topic/orders")
    browser.sees(".promise-list", "it is on every replica of the in-sync set, at least 2 of 3.")
    browser.click("#tab-settings")
    browser.sees(".settings", "min.insync.replicas")
    browser.open("/topic/no-such-topic")
    browser.sees(".topic-head", "There is no such topic.")
    browser.click(".skip")  # to the content, and not away from the tab of the topic
    assert browser.run("return document.activeElement.id") == "main"
    browser.open("/topic/%E0%A4%A")  # no encoded text
    browser.sees(".topic-head", "There is no such topic.")
    browser.sees("#live", "live")


def test_a_topic_that_is_deleted_and_created_again_while_it_is_shown(
    browser: Browser, cluster: Cluster
) -> None:
    shown = "return document.querySelector('.promise-card').checkVisibility()"
    cluster.create_topic("brief", partitions=1, replicas=3)
    browser.open("/topic/brief")
    browser.sees(".promise-list", "Writes go on.")
    assert run(["topic", "delete", "brief", "--yes", "--bootstrap", cluster.bootstrap]) == 0
    browser.sees(".topic-head", "There is no such topic.")
    assert not browser.run(shown)
    cluster.create_topic("brief", partitions=1, replicas=3)
    until(lambda: "no such topic" not in browser.text(".topic-head"))
    assert browser.run(shown)
    assert run(["topic", "delete", "brief", "--yes", "--bootstrap", cluster.bootstrap]) == 0


def test_a_hostile_message(browser: Browser, cluster: Cluster) -> None:
    write(cluster, "orders", (HOSTILE, f'{{"a": "{HOSTILE[:20]}"}}'.encode()), ("k", HOSTILE.encode()))
    browser.open("/topic/orders#messages")
    browser.sees(".messages tbody", "<img src=x onerror=alert(1)>\\u202e\\x1b[31m'\"&")
    browser.click(".messages .opener")
    browser.sees(".headers", "<img src=x")
    assert browser.count("main img") == 0
    assert browser.count("main [onerror]") == 0


def test_json_is_indented_without_another_meaning(browser: Browser, cluster: Cluster) -> None:
    """Scripts do not know numbers of so many digits, nor a key that is there twice."""
    text = '{"id":9007199254740993,"id":1.10,"list":[ ],"in":{"a \\" {":[true,null]}}'
    write(cluster, "orders", ("numbers", text.encode()), partition=2)
    browser.open("/topic/orders#messages")
    browser.sees(".messages-tools", "partition 2")
    browser.choose(".messages-tools select", "2")
    browser.sees(".messages tbody", "numbers")
    browser.click(".messages .opener")
    lines = ["{", '  "id": 9007199254740993,', '  "id": 1.10,', '  "list": [],', '  "in": {']
    lines.append('    "a \\" {": [')
    lines += ["      true,", "      null", "    ]", "  }", "}"]
    browser.sees(".detail", "\n".join(lines))


def test_json_that_line_breaks_would_make_huge_is_shown_as_it_is(browser: Browser, cluster: Cluster) -> None:
    """400 kB at a depth of 900 would be 340 MB with them, and the browser would hang."""
    text = "[" * 900 + "1," * 190_000 + "1" + "]" * 900
    write(cluster, "orders", ("deep", text.encode()), ("lines", b"one\n" * 90), partition=3)
    browser.open("/topic/orders#messages")
    browser.sees(".messages-tools", "partition 3")
    browser.choose(".messages-tools select", "3")
    browser.sees(".messages tbody", "deep")
    browser.sees(".lead", "Offsets 0 to 1.")
    height = "return document.querySelector('.messages tbody tr').getBoundingClientRect().height"
    assert browser.run(height) < 60  # A list has a line for each message, whatever is in it.
    browser.click(".messages tbody tr:nth-child(2) .opener")
    browser.sees(".detail", "Value · json")
    assert browser.text(".detail pre:last-of-type").count("1,") == 190_000
    assert len(browser.text(".detail")) < 500_000


def test_a_large_message_is_cut(browser: Browser, cluster: Cluster) -> None:
    change = ["topic", "alter", "orders", "--set", f"max.message.bytes={2 * LARGE_BYTES}"]
    assert run([*change, "--bootstrap", cluster.bootstrap]) == 0
    write(cluster, "orders", ("large", b"x" * LARGE_BYTES), partition=1)
    browser.open("/topic/orders#messages")
    browser.sees(".messages-tools", "partition 1")
    browser.choose(".messages-tools select", "1")
    browser.sees(".messages tbody", "4.8 MiB")
    assert len(browser.text(".messages tbody")) < 10_000


def test_filters_of_messages(browser: Browser, cluster: Cluster) -> None:
    write(cluster, "payments", *((str(n), f'{{"customer": {{"id": {n}}}}}'.encode()) for n in range(300)))
    browser.open("/topic/payments#messages")
    browser.sees(".messages-tools", "partition 2")
    browser.run("document.querySelector('.messages-tools .wide').value = 'customer.id=250'")
    browser.choose(".messages-tools select:nth-of-type(2)", "oldest")
    browser.sees(".messages tbody", '{"customer": {"id": 250}}')
    assert browser.count(".messages tbody tr") == 1
    browser.run("document.querySelector('.messages-tools .wide').value = 'customer.id=7'")
    browser.choose(".messages-tools select:nth-of-type(2)", "newest")
    browser.sees(".messages tbody", '{"customer": {"id": 7}}')  # Far behind the last 50.
    browser.run("document.querySelector('.messages-tools .wide').value = ''")
    browser.click(".messages-tools [type=submit]")
    until(lambda: browser.count(".messages tbody tr") == 50)
    browser.click(".rest button:last-child")
    until(lambda: browser.count(".messages tbody tr") == 100)
    offsets = browser.text(".messages tbody .opener").split()
    assert [int(each) for each in offsets] == [*range(int(offsets[0]), int(offsets[0]) - 100, -1)]


def test_groups_with_their_lag(browser: Browser, cluster: Cluster) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": HOSTILE,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["payments"])
    message = until(lambda: consumer.poll(0.2))
    assert message.error() is None
    consumer.commit(message=message, asynchronous=False)
    browser.open("/groups")
    browser.sees(".list tbody", "<img src=x onerror=alert(1)>")
    browser.sees(".list tbody", "299")
    browser.click(".list tbody .opener")
    browser.sees(".group-detail", "payments")
    until(lambda: browser.count(".group-detail td .spark .line"))  # lag over time, of a partition
    assert browser.count("main img") == 0
    consumer.close()


def test_what_if_changes_on_the_spot(browser: Browser) -> None:
    browser.open("/what-if")
    browser.sees(".status", "Nothing fails")
    browser.click(".fault-broker:nth-child(1) .kill")
    browser.click(".fault-broker:nth-child(2) .kill")
    browser.sees(".status", "writes stop in 12")  # Two of three controllers, too.
    browser.sees(".worst", "The worst pair of deaths")


def test_a_killed_broker_is_shown_within_a_second(browser: Browser, cluster: Cluster) -> None:
    browser.open("/")
    browser.sees(".status", "Every replica is in sync")
    victim = cluster.leader_of("orders")
    number = next(index for index in (1, 2, 3) if cluster[index] is victim)
    begun = time.monotonic()
    victim.kill()
    until(lambda: browser.count("th.broker[data-state=silent]") == 1)
    shown_s = time.monotonic() - begun
    browser.sees("tr.mode-pb .promise", "writes stopped in 1 of 3")
    until(lambda: browser.count("tr.mode-isr .cell.leader") == 6)  # Leaders moved.
    browser.open("/timeline")
    browser.sees(".events", f"Broker {number} does not answer")
    browser.sees(".events", f"because broker {number} is down")
    for stage in ("noticed", "decided", "applied"):
        browser.sees(".stages", stage)
    browser.open("/topic/audit")
    browser.sees(".promise-list", "Writes are refused now in 1 of 3 partitions.")
    victim.start()
    browser.sees(".pill", "as configured")
    assert shown_s < SHOWN_WITHIN_S


def test_a_frozen_broker_is_shown_within_a_second(browser: Browser, cluster: Cluster) -> None:
    browser.open("/")
    until(lambda: browser.count("th.broker[data-state=up]") == 3)
    begun = time.monotonic()
    cluster[3].pause()
    until(lambda: browser.count("th.broker[data-state=silent]") == 1)
    shown_s = time.monotonic() - begun
    cluster[3].resume()
    until(lambda: browser.count("th.broker[data-state=up]") == 3)
    browser.sees(".status", "Every replica is in sync")
    assert shown_s < SHOWN_WITHIN_S


def test_phone_width_needs_no_sideways_scrolling(browser: Browser, cluster: Cluster) -> None:
    cluster.create_topic("a-name-" * 35, partitions=1, replicas=3)
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        for path in ("/", "/topics", "/topic/orders", "/groups", "/timeline", "/what-if"):
            browser.open(path)
            until(lambda: browser.count("h1"))
            assert browser.run("return document.documentElement.scrollWidth") <= 390, path
            if path in ("/topics", "/topic/orders", "/what-if"):  # All of a table is in sight, too.
                until(lambda: browser.count(".frame tbody tr > :last-child"))
                table = "return document.querySelector('.frame table').getBoundingClientRect().right"
                assert browser.run(table) <= 390, path
            if path == "/topics":
                height = "return document.querySelector(arguments[0]).getBoundingClientRect().height"
                assert browser.run(height, "a[href='/topic/orders']") < 30  # on one line
            tab = "return document.querySelector('.bar nav [aria-current]').getBoundingClientRect().right"
            assert browser.run(tab) <= 390, path
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_two_browsers_one_of_which_goes_away(browser: Browser) -> None:
    browser.open("/")
    browser.sees("#live", "live")
    first = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("tab")
    browser.open("/")
    browser.sees(".matrix", "orders")
    browser.driver.close()
    browser.driver.switch_to.window(first)
    browser.sees("#live", "live")


def test_strangers_are_refused_and_every_answer_has_its_policy(page: PageProcess) -> None:
    host, port = page.address.removeprefix("http://").split(":")
    for headers, method, status in (
        ({}, "GET", 200),
        ({"Host": "evil.example"}, "GET", 403),
        ({"Origin": "https://evil.example"}, "GET", 403),
        ({}, "POST", 403),
    ):
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        connection.request(method, "/api/groups", headers=headers)
        response = connection.getresponse()
        assert response.status == status, headers
        assert "default-src 'none'" in response.headers["content-security-policy"]
        connection.close()


def test_many_browsers_that_do_not_read(browser: Browser, page: PageProcess) -> None:
    host, port = page.address.removeprefix("http://").split(":")
    with ExitStack() as stack:
        answers = []
        for _ in range(BROWSERS_MAX + 20):
            connection = stack.enter_context(closing(http.client.HTTPConnection(host, int(port), timeout=30)))
            connection.request("GET", "/events")
            answers.append(connection.getresponse().status)
        assert answers.count(503) >= 20
        assert answers.count(200) > BROWSERS_MAX - 20
    browser.open("/")
    browser.sees("#live", "live")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/messages?name=orders&from=@99999999999999999999", 200),
        ("/api/messages?name=orders&from=@-99999999999999999999", 200),
        ("/api/messages?name=orders&from=<99999999999999999999", 200),
        ("/api/messages?name=orders&from=-99999999999999999999", 200),
        ("/api/messages?name=orders&from=<", 400),
        ("/api/messages?name=orders&from=oldest&limit=200&whole=1", 200),
        ("/api/messages?name=orders&partition=99999999999999999999", 400),
        ("/api/what-if?dead=99999999999999999999", 200),
        ("/no-such-view", 404),
        ("/topic/a/b", 404),
        ("/static/../server.py", 404),
        ("/static/%2e%2e%2fserver.py", 404),
        ("/static//etc/passwd", 404),
        ("/static/js/%00", 404),
    ],
)
def test_requests_that_no_page_makes(page: PageProcess, path: str, status: int) -> None:
    host, port = page.address.removeprefix("http://").split(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=30)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read()
    assert (response.status, len(text) < 1_000_000) == (status, True), text[:500]


def test_a_thousand_partitions(browser: Browser, cluster: Cluster) -> None:
    cluster.create_topic("many", partitions=1000, replicas=3)
    browser.open("/")
    until(lambda: browser.count(".dense .cell") == 3000)
    until(lambda: browser.count(".dense .cell.leader") == 1000)
    took_ms = browser.run(
        "const begun = performance.now(); document.querySelector('#theme').click(); "
        "document.body.offsetHeight; return performance.now() - begun"
    )
    assert took_ms < 5000


def test_the_page_is_killed_and_restarted(browser: Browser, page: PageProcess, cluster: Cluster) -> None:
    """The last test of the file: it ends the page that the others share. The one before leaves its topic."""
    browser.open("/")
    browser.sees("#live", "live")
    page.process.kill()
    page.process.wait()
    browser.sees("#live", "reconnecting")
    again = start_page(cluster.bootstrap, int(page.address.rsplit(":", 1)[1]))
    try:
        browser.sees("#live", "live")
        browser.sees(".matrix", "orders")
    finally:
        again.end()
    browser.complaints()  # of connections that were refused meanwhile
