"""What a broker's clients asked, how long their responses took, and what was read for them.

As in Kafka, the time of a request is the total: from when its last bytes arrived until its response was given
to the socket. It includes the wait for followers, for records, and for earlier responses of the connection.
"""

from collections.abc import Iterator
from typing import Final

from tidelog.protocol import fetch, messages
from tidelog.runtime.lag import Histogram

BOUNDS_S: Final = (
    0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0,
)  # fmt: skip


class RequestTimes:
    """A histogram for each API, made when its first request comes."""

    def __init__(self) -> None:
        self.follower_fetches = Histogram(BOUNDS_S)
        self._by_api: dict[int, Histogram] = {}

    def of(self, api_key: int) -> Histogram:
        found = self._by_api.get(api_key)
        if found is None:
            found = self._by_api[api_key] = Histogram(BOUNDS_S)
        return found

    def rows(self) -> Iterator[tuple[str, Histogram]]:
        """By Kafka's name of the request; fetches of consumers and of followers are told apart, as there."""
        for api_key, histogram in sorted(self._by_api.items()):
            yield "FetchConsumer" if api_key == fetch.API_KEY else _name(api_key), histogram
        yield "FetchFollower", self.follower_fetches


def _name(api_key: int) -> str:
    """As Kafka writes it: ``ListOffsets``."""
    return "".join(word.capitalize() for word in messages.name_of(api_key).split("_"))


class Reads:
    """Reads of segments for responses."""

    __slots__ = ("cached_bytes", "waited")

    def __init__(self) -> None:
        self.cached_bytes = 0  # came from the page cache at once
        self.waited = 0  # were not in the page cache: a thread loaded them
