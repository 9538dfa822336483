"""The subscribed topics of a member of a classic group.

The coordinator does not interpret the metadata of a joining consumer except for its topics: the offsets of a
subscribed topic must neither expire nor be deleted.
"""

from tidelog.protocol.wire import INT16, STRUCT_ERROR, Malformed, read_array_size, read_string

CONSUMER_PROTOCOL = "consumer"


def topics_of(metadata: bytes) -> frozenset[str] | None:
    """The topics named in a consumer's subscription; None if the bytes are invalid."""
    view = memoryview(metadata)
    try:
        version: int = INT16.unpack_from(view)[0]
        if version < 0:
            return None
        count, position = read_array_size(view, 2, False)
        topics = []
        for _ in range(count):
            topic, position = read_string(view, position, False)
            topics.append(topic or "")
        return frozenset(topics)
    except (Malformed, STRUCT_ERROR, IndexError):
        return None
