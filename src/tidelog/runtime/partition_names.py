"""Log lines with the names of partitions. The core knows a partition by the id of its topic and its number,
an operator by the name of the topic.
"""

import logging
from collections.abc import Callable, Mapping
from uuid import UUID


class PartitionNames(logging.Filter):
    """For handlers: replaces keys of partitions among the arguments of a log line."""

    def __init__(self, topic_names: Callable[[], Mapping[UUID, str]]) -> None:
        super().__init__()
        self._topic_names = topic_names

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple) and any(map(_is_key, record.args)):
            names = self._topic_names()
            record.args = tuple([_named(each, names) for each in record.args])
        elif _is_key(record.args):
            # logging takes a tuple that is the only argument for all of them.
            record.args = (_named(record.args, self._topic_names()),)
        return True


def _is_key(value: object) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[0], UUID)
        and isinstance(value[1], int)
    )


def _named(value: object, names: Mapping[UUID, str]) -> object:
    if not isinstance(value, tuple) or not _is_key(value):
        return value
    topic_id, index = value
    # A topic that was deleted meanwhile has no name any more.
    return f"{names.get(topic_id, topic_id)}-{index}"
