"""Which shapes of Produce requests a connection remembers."""

from tidelog.protocol import produce
from tidelog.protocol.produce import Shape
from tidelog.runtime.produce_shapes import SHAPES_MAX, ProduceShapes
from unit.protocol.test_produce_shape import TOPIC, frame_of

VERSION = 7


def shape_of(index: int, version: int = VERSION, topic: str = TOPIC) -> Shape:
    frame = memoryview(frame_of(version, b"v", index=index, topic=topic))
    request = produce.decode(frame, frame_position(version, frame), version)
    [(key, [(partition, records)])] = request.topics
    assert records is not None
    return Shape(frame, records, version, request.acks, request.timeout_ms, key, partition)


def frame_position(version: int, frame: memoryview) -> int:
    """Where the body begins: after the client id."""
    return 10 + max(int.from_bytes(frame[8:10], "big", signed=True), 0)


def test_the_shape_of_another_partition_is_found_and_becomes_the_last() -> None:
    shapes = ProduceShapes()
    three, four = shape_of(3), shape_of(4)
    shapes.learn(three)
    shapes.learn(four)
    assert shapes.last is four
    request = memoryview(frame_of(VERSION, b"other", index=3))
    assert shapes.other(request, four) is three
    assert shapes.last is three
    assert shapes.other(memoryview(frame_of(VERSION, b"v", index=5)), three) is None
    assert shapes.last is three


def test_a_shape_of_another_version_is_not_used() -> None:
    shapes = ProduceShapes()
    shapes.learn(shape_of(3, version=8))
    shapes.learn(shape_of(4))
    assert shapes.last is not None
    assert shapes.other(memoryview(frame_of(VERSION, b"v", index=3)), shapes.last) is None


def test_an_unusual_request_ends_only_the_last_shape() -> None:
    shapes = ProduceShapes()
    three = shape_of(3)
    shapes.learn(three)
    shapes.learn(None)
    assert shapes.last is None
    assert shapes.other(memoryview(frame_of(VERSION, b"v", index=3)), shape_of(4)) is three


def test_nothing_is_known_after_a_change_of_quotas() -> None:
    shapes = ProduceShapes()
    shapes.learn(shape_of(3))
    shapes.forget()
    assert shapes.last is None
    assert shapes.other(memoryview(frame_of(VERSION, b"v", index=3)), shape_of(4)) is None


def test_the_number_of_shapes_is_limited() -> None:
    shapes = ProduceShapes()
    for index in range(SHAPES_MAX + 1):
        shapes.learn(shape_of(index))
    last = shape_of(SHAPES_MAX)
    found = [
        index
        for index in range(SHAPES_MAX + 1)
        if shapes.other(memoryview(frame_of(VERSION, b"v", index=index)), last) is not None
    ]
    assert found == [SHAPES_MAX]
