"""What a topic promises in its present state. What the sentences claim, the planner's own tests cover."""

from collections.abc import Sequence

from tidelog.client.topic_partitions import PartitionSeen
from tidelog.page.promises import Promise, live_of, places_of, promise
from unit.page.seen import cluster, facts, partition

ALL = (1, 2, 3)


def promised(
    *partitions: PartitionSeen, silent: Sequence[int] = (), fenced: Sequence[int] = (), **settings: str
) -> Promise:
    seen = facts(cluster(*partitions, fenced=frozenset(fenced)), silent=frozenset(silent), **settings)
    return promise(places_of(seen, "orders"), seen.away())


def test_a_healthy_isr_topic() -> None:
    found = promised(partition(1, ALL))
    assert (found.level, found.short) == ("ok", "survives 1 more death")
    assert found.sentences[0] == (
        "A record is acknowledged (acks=all) when it is on every replica of the in-sync set, at least 2 of 3."
    )
    assert found.sentences[1] == (
        "Writes go on. Two more deaths stop writes: brokers 1 and 2; 1 and 3; 2 and 3."
    )
    assert found.sentences[3] == (
        "An acknowledged record is lost only if all replicas that hold a record (at least 2 of 3) are lost "
        "for good or they lose power at once, before records were synced to disk."
    )


def test_one_death_later() -> None:
    found = promised(partition(2, ALL, (2, 3)), silent=[1])
    assert (found.level, found.short) == ("warn", "one more death stops writes")
    assert found.sentences[1] == "Writes go on. One more death stops writes: that of broker 2 or 3."


def test_a_broker_that_may_not_have_ended() -> None:
    """Its connections are not closed: readers are served by the others only if they have a majority."""
    seen = facts(cluster(partition(2, ALL, (2, 3))), silent=frozenset({1}))
    places, away = places_of(seen, "orders"), seen.away()
    assert seen.frozen() == frozenset()
    seen.pulses[1] = seen.pulses[1]._replace(ended=False)
    assert seen.frozen() == {1}
    assert promise(places, away).sentences[2] != promise(places, away, seen.frozen()).sentences[2]


def test_a_primary_that_is_down() -> None:
    found = promised(
        partition(-1, (1, 2)), partition(2, (2, 3)), fenced=[1], replication_mode="primary-backup"
    )
    assert (found.level, found.short) == ("bad", "writes stopped in 1 of 2")
    assert found.sentences[1] == "Writes are refused now in 1 of 2 partitions."
    assert found.sentences[2].startswith("Reads go on.")


def test_a_synced_quorum_topic() -> None:
    found = promised(partition(1, ALL), replication_mode="quorum", flush_messages="1")
    assert found.sentences[0].endswith("when it is on 2 of 3 replicas and synced to disk there.")
    assert "lose power" not in found.sentences[3]


def test_a_cluster_without_modes_is_as_kafka() -> None:
    seen = facts(cluster(partition(1, ALL)))
    seen.settings["orders"] = {
        name: value for name, value in seen.settings["orders"].items() if name != "replication.mode"
    }
    assert live_of(seen).places[0].terms.mode == "isr"
    sentences = promise(places_of(seen, "orders"), seen.away()).sentences
    assert sentences[2] == "Reads go on. Two more deaths stop reads: brokers 1 and 2; 1 and 3."


def test_a_topic_whose_settings_are_not_known_yet_promises_nothing() -> None:
    seen = facts(cluster(partition(1, ALL)))
    seen.settings = {}
    assert promise(places_of(seen, "orders"), seen.away()).sentences == ()
    assert live_of(seen).places == ()
