"""Which versions of its requests a broker serves, and what is said about one that is too old.

Asked once for each connection, because brokers of one cluster may differ while it is upgraded.
"""

import struct
from collections.abc import Mapping

from tidelog.client.apis import Api
from tidelog.client.errors import BrokerTooOld
from tidelog.client.reader import Reader

_ERROR = struct.Struct(">h")
_RANGE = struct.Struct(">hhh")

# For an error message: the oldest Kafka that serves a version which is needed here. Other brokers with the
# same protocol report versions of requests only, as Kafka does.
_KAFKA_OF = {
    (Api.FETCH, 11): "2.3",
    (Api.LIST_OFFSETS, 5): "2.3",
    (Api.METADATA, 7): "2.1",
}


class ServedVersions:
    """The oldest and the newest version of each request that one broker serves."""

    def __init__(self, address: tuple[str, int], ranges: Mapping[int, tuple[int, int]]) -> None:
        self._address = address
        self._ranges = ranges

    def serves(self, api: int, version: int) -> bool:
        oldest, newest = self._ranges.get(api, (0, -1))
        return oldest <= version <= newest

    def newest_common(self, api: int, oldest: int, newest: int) -> int | None:
        """The newest version of a request that the broker serves and the caller knows; None: none."""
        served_oldest, served_newest = self._ranges.get(api, (0, -1))
        version = min(newest, served_newest)
        return version if version >= max(oldest, served_oldest) else None

    def require(self, api: int, version: int, what: str) -> None:
        """:class:`BrokerTooOld` unless the version is served; ``what`` needs it."""
        if self.serves(api, version):
            return
        oldest, newest = self._ranges.get(api, (0, -1))
        host, port = self._address
        if version < oldest:
            raise BrokerTooOld(
                f"The broker at {host}:{port} serves {Api(api).name} from version {oldest} on, and {what} "
                f"uses version {version}: a newer Tidelog is needed."
            )
        has = f"up to version {newest}" if newest >= 0 else "not at all"
        kafka = _KAFKA_OF.get((Api(api), version))
        needed = f"Kafka {kafka} or newer" if kafka else f"version {version}"
        raise BrokerTooOld(
            f"The broker at {host}:{port} is too old: it serves {Api(api).name} {has}, and {what} "
            f"needs version {version}, {needed}."
        )


def served_versions(address: tuple[str, int], response: memoryview) -> ServedVersions:
    """From a response to ApiVersions, version 0."""
    (error,) = _ERROR.unpack_from(response)
    if error:
        raise ConnectionError(
            f"{address[0]}:{address[1]} refuses to say which versions it serves: code {error}"
        )
    return ServedVersions(address, served_ranges(response))


def served_ranges(response: memoryview) -> dict[int, tuple[int, int]]:
    """Oldest and newest version of each request; none if the response is an error."""
    reader = Reader(response)
    reader.int16()  # the error
    ranges = {}
    for _ in range(reader.int32()):
        api, oldest, newest = reader.take(_RANGE)
        ranges[api] = (oldest, newest)
    return ranges
