"""A cluster of three brokers, of which this one is the controller."""

from uuid import UUID

from tidelog.controller.records import BrokerRegistered
from unit.broker.fakes import ME, FakeBroker

TOPIC = "t"


def three_brokers() -> FakeBroker:
    """Broker 1, with brokers 2 and 3 registered beside it, and a topic of two partitions."""
    made = FakeBroker()
    for other in (2, 3):
        made.submit(BrokerRegistered(other, UUID(int=other), f"h{other}", 9092, None, other))
    assignments = [
        {"partition_index": 0, "broker_ids": [ME, 2]},
        {"partition_index": 1, "broker_ids": [2, ME]},
    ]
    wish = {"name": TOPIC, "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
    assert made.call("create_topics", 7, topics=[wish]).topics[0].error_code == 0
    return made


def replicas(broker: FakeBroker) -> list[tuple[int, ...]]:
    return [each.replicas for each in broker.store.image.topics[TOPIC].partitions]
