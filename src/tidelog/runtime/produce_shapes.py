"""What the Produce requests of one connection look like, so that similar ones need not be parsed.

A producer's requests for one partition differ only in their records
(:class:`~tidelog.protocol.produce.Shape`), and one with several partitions on this broker takes turns between
them. So the shape of one request of each partition is remembered.
"""

from tidelog.protocol.produce import Shape

SHAPES_MAX = 64


class ProduceShapes:
    __slots__ = ("_of_partition", "last")

    def __init__(self) -> None:
        self.last: Shape | None = None  # that of the last Produce request; None if it had none
        self._of_partition: dict[bytes, Shape] = {}

    def learn(self, shape: Shape | None) -> None:
        """A request was parsed. ``shape``: None if it is too unusual, or too large to be kept."""
        self.last = shape
        if shape is not None:
            if len(self._of_partition) >= SHAPES_MAX:
                self._of_partition.clear()
            self._of_partition[shape.partition] = shape

    def other(self, request: memoryview, last: Shape) -> Shape | None:
        """For a request that does not have the last shape: the one that it probably has."""
        shape = self._of_partition.get(bytes(request[last.partition_at]))
        if shape is None or shape.version != last.version:
            return None
        self.last = shape
        return shape

    def forget(self) -> None:
        self.last = None
        self._of_partition.clear()
