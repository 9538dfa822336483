"""Events, with the reason for each."""

from collections.abc import Iterable

from tidelog.page.facts import Pulse, SettingSeen
from tidelog.page.story import Event, cluster_changed, pulse_changed, settings_changed
from unit.page.seen import cluster, partition

ALL = (1, 2, 3)
NOBODY: frozenset[int] = frozenset()


def texts(events: Iterable[Event]) -> list[str]:
    return [event.text for event in events]


def test_partitions_with_the_same_fate_share_an_event() -> None:
    before = cluster(*(partition(1, ALL) for _ in range(3)), partition(2, ALL))
    after = cluster(
        *(partition(2, ALL, (2, 3)) for _ in range(3)), partition(2, ALL, (2, 3)), fenced=frozenset({1})
    )
    assert texts(cluster_changed(before, after, frozenset({1}))) == [
        "Broker 1 was fenced: its session with the controllers ended, so it leads nothing.",
        "Broker 2 took over orders (partitions 0, 1 and 2) from broker 1, because broker 1 is down.",
        "The in-sync set of orders (all 4 partitions) lost broker 1, which is down.",
    ]


def test_a_follower_that_does_not_keep_up_and_returns() -> None:
    whole, without = cluster(partition(1, ALL)), cluster(partition(1, ALL, (1, 2)))
    assert texts(cluster_changed(whole, without, NOBODY)) == [
        "The in-sync set of orders-0 lost broker 3, which did not keep up."
    ]
    assert texts(cluster_changed(without, whole, NOBODY)) == [
        "Broker 3 caught up and is in the in-sync set of orders-0."
    ]


def test_brokers_that_leave_and_return_together() -> None:
    whole, alone = cluster(partition(1, ALL)), cluster(partition(1, ALL, (1,)))
    assert texts(cluster_changed(whole, alone, frozenset({2, 3}))) == [
        "The in-sync set of orders-0 lost brokers 2 and 3, which are down."
    ]
    assert texts(cluster_changed(alone, whole, NOBODY)) == [
        "Brokers 2 and 3 caught up and are in the in-sync set of orders-0."
    ]


def test_a_broker_that_is_down_left_sets_that_it_led_and_others_alike() -> None:
    before = cluster(partition(1, ALL), partition(2, ALL))
    led = partition(2, ALL, (2, 3))._replace(epoch=2)
    assert texts(cluster_changed(before, cluster(led, partition(2, ALL, (2, 3))), frozenset({1}))) == [
        "Broker 2 took over orders-0 from broker 1, because broker 1 is down.",
        "The in-sync set of orders (all 2 partitions) lost broker 1, which is down.",
    ]


def test_a_primary_that_is_down_and_returns() -> None:
    there, gone = cluster(partition(1, (1, 2))), cluster(partition(-1, (1, 2)))
    assert texts(cluster_changed(there, gone, frozenset({1}))) == [
        "orders-0 has no leader: broker 1 is down, and no other replica has taken over."
    ]
    assert texts(cluster_changed(there, gone, NOBODY)) == [
        "orders-0 has no leader for now: the others have lost touch with broker 1."
    ]
    assert texts(cluster_changed(gone, there, NOBODY)) == ["Broker 1 leads orders-0, which had no leader."]


def test_leadership_that_was_moved() -> None:
    [text] = texts(cluster_changed(cluster(partition(1, ALL)), cluster(partition(2, ALL)), NOBODY))
    assert text == "Broker 2 took over orders-0 from broker 1, though it is up: leadership was moved."


def test_controllers_topics_and_settings() -> None:
    before, after = cluster(partition(1, ALL), active=1), cluster(partition(1, ALL), active=2)
    assert texts(cluster_changed(before, after, frozenset({1}))) == [
        "Controller 2 took over from 1, because 1 does not answer."
    ]
    empty = cluster()
    assert texts(cluster_changed(empty, before, NOBODY)) == ["Topic orders was created with 1 partition."]
    assert texts(cluster_changed(before, empty, NOBODY)) == ["Topic orders was deleted."]
    [event] = settings_changed(
        "orders", {"replication.mode": SettingSeen("isr")}, {"replication.mode": SettingSeen("quorum")}
    )
    assert (event.kind, event.text) == ("mode", "replication.mode of orders changed from isr to quorum.")


def test_a_pulse_that_stops() -> None:
    assert texts(pulse_changed(2, Pulse(True), Pulse(False, "it closed the connection"))) == [
        "Broker 2 does not answer: it closed the connection."
    ]
    assert texts(pulse_changed(2, None, Pulse(False, "it is gone"))) == []


def test_who_left_with_its_epoch_may_have_kept_up() -> None:
    """A primary that returns counts its backups anew; one that is down was lost for another reason."""
    before = cluster(partition(-1, ALL, (2, 3)))
    after = cluster(partition(1, ALL, (1,))._replace(epoch=2))
    assert texts(cluster_changed(before, after, frozenset({3}))) == [
        "Broker 1 leads orders-0, which had no leader.",
        "The in-sync set of orders-0 lost broker 3, which is down.",
        "The in-sync set of orders-0 lost broker 2, until it has caught up with the leader.",
        "Broker 1 caught up and is in the in-sync set of orders-0.",
    ]
