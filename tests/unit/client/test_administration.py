"""Requests of administration, as Kafka's schemas read them."""

import struct

import pytest
from kio.schema.alter_partition_reassignments.v0.request import AlterPartitionReassignmentsRequest
from kio.schema.incremental_alter_configs.v0.request import IncrementalAlterConfigsRequest
from kio.serial import entity_reader

from tidelog.client import administration


def test_settings_are_set_and_unset() -> None:
    body = administration.alter_configs_request(2, "orders", {"a.b": "1", "c": None})
    read = entity_reader(IncrementalAlterConfigsRequest)
    request, _ = read(body, 0)
    (resource,) = request.resources
    assert (resource.resource_type, resource.resource_name) == (2, "orders")
    assert [(each.name, each.config_operation, each.value) for each in resource.configs] == [
        ("a.b", 0, "1"),
        ("c", 1, None),
    ]
    assert not request.validate_only


def test_partitions_of_several_topics_are_moved() -> None:
    targets = {("orders", 0): [3, 2], ("other", 1): [1], ("orders", 4): [2, 1]}
    read = entity_reader(AlterPartitionReassignmentsRequest)
    request, _ = read(administration.reassignments_request(targets), 0)
    found = {
        (topic.name, each.partition_index): list(each.replicas or ())
        for topic in request.topics
        for each in topic.partitions
    }
    assert found == targets


def test_the_first_refusal_of_a_move_counts() -> None:
    fine = struct.pack(">ih", 0, 0) + b"\x00\x00"
    refused = struct.pack(">ih", 1, 37) + b"\x04why\x00"
    body = (
        struct.pack(">ih", 0, 0) + b"\x00" + b"\x02" + b"\x07orders" + b"\x03" + fine + refused + b"\x00\x00"
    )
    assert administration.reassigned(memoryview(body)) == (37, "why")
    nothing = struct.pack(">ih", 0, 41) + b"\x04not" + b"\x01\x00"
    assert administration.reassigned(memoryview(nothing)) == (41, "not")


def test_a_refused_setting_is_told() -> None:
    body = struct.pack(">iih", 0, 1, 40) + struct.pack(">h", 3) + b"why"
    assert administration.altered(memoryview(body)) == (40, "why")
    with pytest.raises(ConnectionError):
        administration.altered(memoryview(struct.pack(">ii", 0, 0)))
