"""Brokers that are too old for a guarantee are refused with one sentence, before anything is written."""

import struct

import pytest

pytest.importorskip("pyspark")

from tidelog.client.apis import Api
from tidelog.client.cluster import Cluster
from tidelog.client.errors import BrokerTooOld
from tidelog.client.settings import ClientSettings
from tidelog.spark.writing.settings import AT_LEAST_ONCE, EXACTLY_ONCE
from tidelog.spark.writing.versions import PLAIN, TRANSACTIONAL, require_brokers

KAFKA_2_4 = {
    Api.PRODUCE: (0, 8),
    Api.OFFSET_FETCH: (0, 6),
    Api.FIND_COORDINATOR: (0, 3),
    Api.INIT_PRODUCER_ID: (0, 2),
    Api.ADD_PARTITIONS_TO_TXN: (0, 1),
    Api.ADD_OFFSETS_TO_TXN: (0, 1),
    Api.END_TXN: (0, 1),
    Api.TXN_OFFSET_COMMIT: (0, 2),
    Api.DESCRIBE_CONFIGS: (0, 2),
}
KAFKA_3_0 = {
    Api.PRODUCE: (0, 9),
    Api.OFFSET_FETCH: (0, 8),
    Api.FIND_COORDINATOR: (0, 4),
    Api.INIT_PRODUCER_ID: (0, 4),
    Api.ADD_PARTITIONS_TO_TXN: (0, 3),
    Api.ADD_OFFSETS_TO_TXN: (0, 3),
    Api.END_TXN: (0, 3),
    Api.TXN_OFFSET_COMMIT: (0, 3),
    Api.DESCRIBE_CONFIGS: (0, 4),
    Api.DESCRIBE_TRANSACTIONS: (0, 0),
    Api.LIST_TRANSACTIONS: (0, 0),
}
KAFKA_4 = KAFKA_3_0 | {Api.PRODUCE: (3, 13), Api.OFFSET_FETCH: (1, 10), Api.DESCRIBE_CONFIGS: (1, 4)}


class Served(Cluster):
    """A broker that serves these versions."""

    def __init__(self, served: dict[Api, tuple[int, int]]) -> None:
        super().__init__(ClientSettings((("127.0.0.1", 9),)))
        self._served = served

    def ask(self, api: int, version: int, *_: object) -> memoryview:
        assert (api, version) == (Api.API_VERSIONS, 0)
        keys = b"".join(struct.pack(">hhh", key, *range_) for key, range_ in self._served.items())
        return memoryview(struct.pack(">hi", 0, len(self._served)) + keys)


@pytest.mark.parametrize("served", [KAFKA_3_0, KAFKA_4])
def test_brokers_that_serve_everything(served: dict[Api, tuple[int, int]]) -> None:
    require_brokers(Served(served), AT_LEAST_ONCE, PLAIN)
    require_brokers(Served(served), EXACTLY_ONCE, TRANSACTIONAL)


def test_older_brokers_are_refused_by_what_they_lack() -> None:
    require_brokers(Served(KAFKA_2_4), AT_LEAST_ONCE, PLAIN)
    says = r"deliveryGuarantee=exactly-once needs brokers like Kafka 3\.0 or newer.*LIST_TRANSACTIONS"
    with pytest.raises(BrokerTooOld, match=says):
        require_brokers(Served(KAFKA_2_4), EXACTLY_ONCE, TRANSACTIONAL)
    older = KAFKA_2_4 | {Api.PRODUCE: (0, 7)}
    with pytest.raises(BrokerTooOld, match=r"Kafka 2\.4 or newer; these do not serve PRODUCE in"):
        require_brokers(Served(older), AT_LEAST_ONCE, PLAIN)
