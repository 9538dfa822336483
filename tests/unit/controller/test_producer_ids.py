"""Blocks of producer ids: they follow each other, and none comes twice."""

import pytest

from tidelog.controller.image import ClusterImage
from tidelog.controller.producer_ids import BLOCK_SIZE, reserve
from tidelog.controller.records import BrokerConfigChanged, ProducerIdsReserved
from tidelog.errors import InvariantViolation
from unit.controller.clusters import cluster


def test_blocks_follow_each_other() -> None:
    image = cluster(1)
    for number in range(3):
        assert image.next_producer_id == number * BLOCK_SIZE
        image = image.apply([reserve(image)])


def test_other_records_leave_them_alone() -> None:
    image = cluster(1).apply([ProducerIdsReserved(5000), BrokerConfigChanged("", {"a": "1"})])
    assert image.next_producer_id == 5000


@pytest.mark.parametrize("next_id", [0, 999, 1000])
def test_ids_never_come_back(next_id: int) -> None:
    image = ClusterImage().apply([ProducerIdsReserved(1000)])
    with pytest.raises(InvariantViolation):
        image.apply([ProducerIdsReserved(next_id)])
