"""What is said of a cluster in each state: levels, causes, what to type next."""

from typing import Any

from tidelog.cli.cluster.admin import Broker, Cluster, Partition
from tidelog.cli.cluster.commands import health_line
from tidelog.cli.cluster.controllers import Controllers
from tidelog.cli.cluster.health import DEGRADED, HEALTHY, UNAVAILABLE, Survey, _is_offline, as_json, causes
from tidelog.cli.reach import Address

ADDRESSES = {number: Address("127.0.0.1", 9091 + number) for number in (1, 2, 3)}
BROKERS = {number: Broker(number, address, None, fenced=False) for number, address in ADDRESSES.items()}
LED = Partition("orders", 0, 1, [1, 2, 3], [1, 2, 3])
INTERNAL = Partition("__consumer_offsets", 7, 1, [1, 2, 3], [1, 2, 3])
ALL_THERE = Controllers(ADDRESSES, frozenset(), decide=True)
WELL = Survey(Cluster("c", 1, BROKERS, [LED, INTERNAL]), frozenset(), ALL_THERE, [], [], [], frozenset(), {})


def survey(**changed: Any) -> Survey:
    return WELL._replace(**changed)


def test_healthy() -> None:
    assert (WELL.level, causes(WELL)) == (HEALTHY, [])


def test_one_broker_down() -> None:
    found = survey(
        down=frozenset({2}), controllers=ALL_THERE._replace(down=frozenset({2})), under_replicated=[LED]
    )
    assert found.level == DEGRADED
    assert causes(found) == [
        "Broker 2 does not answer. Start it: `tidelog broker --config DIR/broker-2/broker.toml`."
    ]


def test_two_of_three_down() -> None:
    gone = Controllers(ADDRESSES, frozenset({1, 2}), decide=False)
    found = survey(
        down=frozenset({1, 2}),
        controllers=gone,
        offline=[LED, INTERNAL],
        modes={"orders": "isr"},
        readable=frozenset({LED.name}),
    )
    assert found.level == UNAVAILABLE
    said = causes(found)
    assert said[0].startswith("Controllers 1 and 2 of 1, 2 and 3 do not answer, so no majority decides.")
    assert said[1].startswith("Brokers 1 and 2 do not answer. Start them: ")
    assert said[2] == "orders-0 has no leader: no writes; it can be read."
    assert said[3].startswith("1 partition of __consumer_offsets without a leader")


def test_no_controller_and_all_brokers() -> None:
    alone = Controllers({4: Address("127.0.0.1", 9095)}, frozenset({4}), decide=False)
    found = survey(controllers=alone)
    assert found.level == UNAVAILABLE
    (said,) = causes(found)
    assert said.startswith("The only controller, 4, does not answer. Start it: `tidelog broker --config")
    assert "writes and reads go on, but nothing can be changed" in health_line(found)


def test_a_frozen_broker() -> None:
    found = survey(silent=frozenset({2}))
    assert found.level == DEGRADED
    assert causes(found)[0].startswith(
        "Broker 2 accepts connections and does not answer: it is starting, frozen"
    )


def test_the_last_in_sync_replica_is_gone() -> None:
    alone = LED._replace(in_sync=[1])
    found = survey(down=frozenset({1}), offline=[alone], modes={"orders": "isr"})
    assert "if its in-sync replicas are lost for good: `tidelog topic elect --unclean`" in causes(found)[-1]


def test_a_primary_is_waited_for() -> None:
    found = survey(
        down=frozenset({1}),
        offline=[LED],
        modes={"orders": "primary-backup"},
        readable=frozenset({LED.name}),
    )
    assert causes(found)[-1] == "orders-0 waits for its primary, broker 1: no writes; it can be read."


def test_a_disk_that_takes_no_writes() -> None:
    found = survey(unwritable=frozenset({3}))
    assert found.level == DEGRADED
    assert causes(found)[0].startswith("Broker 3 cannot write to its disk: it is full or failing.")


def test_all_disks_are_full() -> None:
    """The controllers are up, and none is active; leaders that have no session serve no readers."""
    stuck = ALL_THERE._replace(decide=False, unwritable=frozenset({1, 2, 3}))
    found = survey(unwritable=frozenset({1, 2, 3}), controllers=stuck, offline=[LED], modes={"orders": "isr"})
    assert found.level == UNAVAILABLE
    said = causes(found)
    assert said[0].startswith("None of the controllers 1, 2 and 3 is active, though enough are up, because")
    assert said[1].startswith("Brokers 1, 2 and 3 cannot write to their disks: they are full or failing.")
    assert said[2] == "orders-0 has no leader: no writes; it cannot be read now."


def test_too_few_replicas_for_acks_all() -> None:
    found = survey(under_replicated=[LED], below_minimum=[LED])
    assert found.level == UNAVAILABLE
    assert causes(found) == ["Writes with acks=all are refused by orders-0: too few replicas are in sync."]


def test_for_scripts() -> None:
    told = as_json(survey(under_replicated=[LED], down=frozenset({2})))
    assert told["level"] == DEGRADED
    assert told["under_replicated"] == ["orders-0"]
    assert told["brokers_down"] == [2]


def test_a_leader_that_does_not_answer_and_that_no_controller_replaces() -> None:
    found = survey(silent=frozenset({1}), offline=[LED], modes={"orders": "isr"})
    assert causes(found)[-1] == (
        "orders-0 has a leader that does not answer, broker 1: no writes; it cannot be read now."
    )
    assert (_is_offline(LED, frozenset({1})), _is_offline(LED, frozenset({2}))) == (True, False)
