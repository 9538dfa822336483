"""Primary-backup topics with real brokers and clients: what stops when a primary or a backup is away, what
goes on, and that nothing is lost.

Broker 4 is the victim: it has replicas, and no vote.
"""

import shutil
from collections.abc import Iterator

import pytest

from tidelog.testing import Broker, Cluster, running_cluster

from .calls import eventually
from .primary_and_backup import (
    BACKUP,
    FOLLOWERS,
    VICTIM,
    JavaClient,
    Writer,
    create,
    holds,
    members,
    numbers,
    promote,
    values,
)
from .replicas import segments
from .test_cluster_disks import flip_a_bit
from .test_java import JARS

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("groups"), 4) as cluster:
        yield cluster


@pytest.fixture
def victim(cluster: Cluster) -> Iterator[Broker]:
    """The primary of the first partition; whatever a test does to it, the next one finds it whole."""
    yield cluster[VICTIM]
    if not cluster[VICTIM].is_running:
        cluster[VICTIM].start()
    cluster.await_ready()


def test_the_primary_is_away(cluster: Cluster, victim: Broker) -> None:
    """Consumers of all kinds go on from the backup and commit; who needs no order writes elsewhere; who does
    waits; and when the primary is back, everybody returns to it and finds everything in order.
    """
    topic = create(cluster, "away", 1, [1, 3], [3, 1])
    followers = [kind(cluster, topic, f"{topic}-{kind.__name__}") for kind in FOLLOWERS]
    writer, pinned = Writer(cluster, topic), Writer(cluster, topic)
    writer.put(*numbers(0, 90)).flush()
    pinned.put(*numbers(0, 300), partition=0).flush()
    on_backup = len([place for place in writer.acked if place[0] == 0]) + 300
    eventually(lambda: holds(cluster[BACKUP], topic) == on_backup, "copied")
    victim.kill()
    cluster.wait_for(lambda: cluster.partition(topic).leader != VICTIM, "the primary is not missed")

    def read(count: int, partition: int | None = None) -> bool:
        return all(
            len({place for place in each.read if partition in (None, place[0])}) >= count
            for each in followers
        )

    eventually(lambda: read(on_backup, 0), "all read what the backup has")
    # A burst may still go to the partition it was meant for a moment ago; then the producer knows.
    eventually(lambda: writer.put("x").poll() and len(writer.acked) > 300, "writes go elsewhere")
    assert {place[0] for place in writer.acked[90:]} == {1, 2}
    pinned.put(*numbers(300, 310), partition=0)
    late = Writer(cluster, topic).put("late", partition=0)
    commits = [each.commits for each in followers]
    eventually(
        lambda: (
            writer.put("x").poll()
            and all(each.commits > before for each, before in zip(followers, commits, strict=True))
        ),
        "all commit while the primary is away",
    )
    late.poll()
    assert late.waiting == 1
    assert len(pinned.acked) == 300

    victim.start()
    for producer in (writer, pinned, late):
        producer.flush()
        assert (producer.waiting, producer.failed) == (0, [])
    everything = len(writer.acked) + len(pinned.acked) + 1
    eventually(lambda: read(everything), "all read everything")
    for each in followers:
        each.finish()
        for partition in range(3):
            offsets = [offset for place, offset in each.read if place == partition]
            assert offsets == list(range(len(offsets))), f"{each.name} read partition {partition} otherwise"
    own = [offset for _, offset, _ in pinned.acked]
    assert own == sorted(own)


def test_a_double_write_without_its_backup(cluster: Cluster, victim: Broker) -> None:
    """Refused before the append, never acknowledged with one copy; reading goes on."""
    topic = create(cluster, "double", 2)
    Writer(cluster, topic).put("a", partition=0).flush()
    cluster[BACKUP].kill()
    try:
        cluster.wait_for(lambda: members(cluster, topic, victim) == (VICTIM,), "the backup is not missed")
        refused = Writer(cluster, topic, retries=0).put("b", partition=0).flush()
        assert (refused.failed, refused.acked) == (["NOT_ENOUGH_REPLICAS"], [])
        assert values(cluster, topic, 1) == ["a"]
        patient = Writer(cluster, topic).put("c", partition=0)
    finally:
        cluster[BACKUP].start()
    patient.flush()
    assert values(cluster, topic, 2) == ["a", "c"]


def test_a_double_write_whose_backup_does_not_answer(cluster: Cluster, victim: Broker) -> None:
    """An error of its own within the timeout; and a retry writes the record once."""
    topic = create(cluster, "late", 2)
    plain = Writer(cluster, topic, **{"retries": 0, "request.timeout.ms": 300, "socket.timeout.ms": 5000})
    again = Writer(cluster, topic, **{"enable.idempotence": True, "request.timeout.ms": 300})
    for each in (plain, again):
        each.put("first", partition=0).flush()
    cluster[BACKUP].pause()
    try:
        plain.put("plain", partition=0).flush()
        assert plain.failed == ["NOT_ENOUGH_REPLICAS_AFTER_APPEND"]
        again.put("once", partition=0).poll()
    finally:
        cluster[BACKUP].resume()
    again.flush()
    again.put("last", partition=0).flush()
    assert values(cluster, topic, 5) == ["first", "first", "plain", "once", "last"]


def test_fewer_copies_where_the_topic_allows_it(cluster: Cluster, victim: Broker) -> None:
    topic = create(cluster, "degrading", 2, replication_degrade_after_ms=300)
    cluster[BACKUP].kill()
    try:
        writer = Writer(cluster, topic).put(*numbers(0, 5), partition=0).flush()
        assert len(writer.acked) == 5
        assert "1 of 2 copies are enough" in victim.log_text()
    finally:
        cluster[BACKUP].start()
    eventually(lambda: "all copies are required again" in victim.log_text(), "two copies again")


def test_a_frozen_primary(cluster: Cluster, victim: Broker) -> None:
    """Readers move to the backup when its session is over; what writers had under way goes on with it."""
    topic = create(cluster, "frozen", 2)
    writer = Writer(cluster, topic, **{"enable.idempotence": True})
    writer.put(*numbers(0, 50), partition=0).flush()
    victim.pause()
    try:
        writer.put(*numbers(50, 60), partition=0).poll()
        assert values(cluster, topic, 50) == numbers(0, 50)
        assert len(writer.acked) == 50
    finally:
        victim.resume()
    writer.flush()
    assert values(cluster, topic, 60) == numbers(0, 60)


def wipe(broker: Broker) -> None:
    broker.kill()
    shutil.rmtree(broker.data_directory)


def test_a_primary_with_an_empty_disk_copies_back(cluster: Cluster, victim: Broker) -> None:
    topic = create(cluster, "wiped", 2)
    Writer(cluster, topic).put(*numbers(0, 200), partition=0).flush()
    wipe(victim)
    victim.start()
    after = Writer(cluster, topic).put(*numbers(200, 220), partition=0).flush()
    assert [offset for _, offset, _ in after.acked] == list(range(200, 220))
    assert values(cluster, topic, 220) == numbers(0, 220)
    assert "copying records back from broker 2" in victim.log_text()


def test_with_one_copy_an_empty_disk_is_for_the_operator(cluster: Cluster, victim: Broker) -> None:
    """The primary does not lead by itself, the backup is not overwritten, and promoting it is lossless as far
    as it got.
    """
    topic = create(cluster, "given-up", 1)
    Writer(cluster, topic).put(*numbers(0, 50), partition=0).flush()
    eventually(lambda: holds(cluster[BACKUP], topic) == 50, "copied")
    wipe(victim)
    victim.start()
    cluster.await_ready()
    eventually(
        lambda: f"broker {VICTIM} cannot lead: the last primary's disk was replaced" in victim.log_text(),
        "it says so",
    )
    waiting = Writer(cluster, topic).put("new", partition=0)
    assert values(cluster, topic, 50) == numbers(0, 50)
    plan = promote(cluster, topic, BACKUP)
    assert (plan["executed"], [copy["end_offset"] for copy in plan["copies"]]) == (False, [0, 50])
    # The write that waited may be there already when the command looks.
    assert promote(cluster, topic, BACKUP, "--yes")["primary"]["end_offset"] in (50, 51)
    waiting.flush()
    assert values(cluster, topic, 51) == [*numbers(0, 50), "new"]
    cluster.await_in_sync(topic)


def test_promoted_while_the_primary_is_away(cluster: Cluster, victim: Broker) -> None:
    """Only on the operator's word; the old primary gives up what only it had, and says how much."""
    topic = create(cluster, "promoted", 1)
    writer = Writer(cluster, topic).put(*numbers(0, 20), partition=0).flush()
    eventually(lambda: holds(cluster[BACKUP], topic) == 20, "copied")
    cluster[BACKUP].kill()
    try:
        writer.put(*numbers(20, 25), partition=0).flush()  # One copy is enough.
        victim.kill()
    finally:
        cluster[BACKUP].start()
    told = promote(cluster, topic, BACKUP)
    assert (told["executed"], told["unheard"]) == (False, [VICTIM])
    assert cluster.partition(topic).replicas == (VICTIM, BACKUP)
    done = promote(cluster, topic, BACKUP, "--yes")
    assert (done["forced"], done["primary"]["end_offset"]) == (True, 20)
    Writer(cluster, topic).put("new", partition=0).flush()
    victim.start()
    cluster.await_in_sync(topic)
    assert values(cluster, topic, 21) == [*numbers(0, 20), "new"]
    assert "lost 5 records" in victim.log_text()


def test_a_flipped_bit_in_an_old_segment_of_the_primary(cluster: Cluster, victim: Broker) -> None:
    """It reaches nobody; the primary drops what is damaged and gets it back from its backup."""
    topic = create(cluster, "flipped", 1, segment_bytes=1 << 16)
    padding = "x" * 1000
    writer = Writer(cluster, topic, **{"batch.size": 10_000})  # A batch has to fit into a segment.
    writer.put(*(f"{n}{padding}" for n in range(300)), partition=0).flush()
    eventually(lambda: holds(cluster[BACKUP], topic) == 300, "copied")
    assert victim.stop() == 0
    flip_a_bit(segments(victim, topic)[0])
    victim.start()
    cluster.await_ready()
    cluster.await_in_sync(topic)
    assert values(cluster, topic, 300) == [f"{n}{padding}" for n in range(300)]
    eventually(lambda: "damaged" in victim.log_text(), "it says that it was damaged")
    cluster.await_in_sync(topic)
    Writer(cluster, topic).put("after", partition=0).flush()
    assert holds(victim, topic) == 301


def test_a_primary_whose_disk_lost_the_end_of_its_log(cluster: Cluster, victim: Broker) -> None:
    """Nobody noticed, the primary least: its backup knows of more, and nothing there is cut off."""
    topic = create(cluster, "shortened", 2)
    writer = Writer(cluster, topic).put(*numbers(0, 50), partition=0).flush()
    for number in numbers(50, 60):  # Each in a batch of its own.
        writer.put(number, partition=0).flush()
    victim.kill()
    log = segments(victim, topic)[-1]
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 300)
    victim.start()
    cluster.await_ready()
    cluster.await_in_sync(topic)
    assert values(cluster, topic, 60) == numbers(0, 60)
    assert "a follower knows of committed records up to 60" in victim.log_text()


def test_the_primary_dies_and_most_of_the_controllers_too(cluster: Cluster, victim: Broker) -> None:
    """Nobody can say any more that the primary is gone; the backup sees that it is, and serves readers."""
    topic = create(cluster, "orphan", 2)
    Writer(cluster, topic).put(*numbers(0, 50), partition=0).flush()
    assert values(cluster, topic, 50) == numbers(0, 50)
    deciders = [broker for broker in cluster if broker.node_id not in (VICTIM, BACKUP)]
    for broker in (*deciders, victim):
        broker.kill()
    assert values(cluster, topic, 50) == numbers(0, 50)
    waits = Writer(cluster, topic).put("50", partition=0)
    for broker in deciders:
        broker.start()
    victim.start()
    cluster.await_ready()
    assert waits.flush().failed == []
    assert values(cluster, topic, 51) == numbers(0, 51)


@pytest.mark.skipif(JARS is None, reason="TIDELOG_TEST_JARS names no directory with Kafka's jars")
def test_kafkas_own_client_while_the_primary_is_away(cluster: Cluster, victim: Broker) -> None:
    topic = create(cluster, "java", 1, [1, 3], [3, 1])
    client = JavaClient(cluster, topic)
    try:
        eventually(lambda: {place[0] for place in client.places("read")} == {0, 1, 2}, "it begins")
        unread = Writer(cluster, topic).put(*numbers(0, 500), partition=0).flush()
        copied = max(offset for _, offset, _ in unread.acked) + 1
        eventually(lambda: holds(cluster[BACKUP], topic) >= copied, "copied")
        victim.kill()
        cluster.wait_for(lambda: cluster.partition(topic).leader != VICTIM, "the primary is not missed")
        eventually(
            lambda: (
                {offset for _, offset, _ in unread.acked}
                <= {offset for place, offset in client.places("read") if place == 0}
            ),
            "it reads what the backup has",
        )
        before, commits = len(client.places("wrote")), client.count("committed")
        eventually(
            lambda: len(client.places("wrote")) > before + 300 and client.count("committed") > commits + 3,
            "it goes on",
        )
        victim.start()
        back = len(client.places("wrote"))
        eventually(
            lambda: 0 in {place for place, _ in client.places("wrote")[back:]}, "it writes there again"
        )
        eventually(
            lambda: set(client.places("wrote")[: back + 10]) <= set(client.places("read")),
            "it reads everything",
        )
    finally:
        client.finish()
    assert client.count("failed") == 0
    for partition in range(3):
        offsets = [offset for place, offset in client.places("read") if place == partition]
        assert offsets == list(range(len(offsets)))
