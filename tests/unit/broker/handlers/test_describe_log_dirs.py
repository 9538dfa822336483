"""DescribeLogDirs: sizes and room."""

from typing import NoReturn

import pytest

from tidelog.errors import ErrorCode
from unit.broker.fakes import FakeBroker


class TestLogDirs:
    @pytest.mark.parametrize("version", range(1, 6))
    def test_sizes_and_room(self, orders: FakeBroker, version: int) -> None:
        orders.create("bills", 2)
        (found,) = orders.call("describe_log_dirs", version, topics=None).results
        assert (found.error_code, found.log_dir) == (0, "data")
        sizes = {
            (topic.name, part.partition_index): part.partition_size
            for topic in found.topics
            for part in topic.partitions
        }
        size = orders.partition("orders").log.size_bytes
        assert sizes == {("orders", 0): size, ("bills", 0): 0, ("bills", 1): 0}
        if version >= 4:
            assert 0 < found.usable_bytes <= found.total_bytes

    def test_a_disk_on_which_only_the_metadata_log_has_failed(self, orders: FakeBroker) -> None:
        orders.metadata_failed = True
        (found,) = orders.call("describe_log_dirs", topics=None).results
        assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR

    def test_a_directory_that_was_removed(self, orders: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        def gone(path: str) -> NoReturn:
            raise FileNotFoundError(path)

        monkeypatch.setattr(orders.disk, "usage", gone)
        (found,) = orders.call("describe_log_dirs", topics=None).results
        assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (found.total_bytes, found.usable_bytes) == (-1, -1)
        assert [topic.name for topic in found.topics] == ["orders"]

    def test_only_what_is_asked_for(self, orders: FakeBroker) -> None:
        orders.create("bills", 2)
        topics = [{"topic": "bills", "partitions": [1, 7]}, {"topic": "none", "partitions": [0]}]
        (found,) = orders.call("describe_log_dirs", topics=topics).results
        shown = [(topic.name, [part.partition_index for part in topic.partitions]) for topic in found.topics]
        assert shown == [("bills", [1])]
