"""Offsets of the partitions that one broker leads."""

from collections.abc import Iterable, Mapping

from tidelog.client import messages
from tidelog.client.apis import Api
from tidelog.client.messages import EARLIEST, LATEST, TopicPartition
from tidelog.page.asking.link import Link


def ends(link: Link, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """High watermarks. A partition that the broker does not lead any more is left out."""
    return at(link, dict.fromkeys(partitions, LATEST))


def begins(link: Link, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    return at(link, dict.fromkeys(partitions, EARLIEST))


def at(link: Link, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The first offset at or after a time in milliseconds, :data:`EARLIEST` or :data:`LATEST`; -1: none."""
    body = messages.list_offsets_request(wanted, read_committed=False)
    response = link.call(Api.LIST_OFFSETS, messages.LIST_OFFSETS_VERSION, body)
    return {
        partition: listed.offset
        for partition, listed in messages.list_offsets(response).items()
        if not listed.error
    }


def pulse(link: Link) -> None:
    """Any answer at all, of a broker that leads nothing."""
    link.call(Api.API_VERSIONS, 0, b"")
