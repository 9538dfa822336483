"""Tells producers from consumers by the requests that their connection has sent so far.

While the primary of a partition is down, producers and consumers need different Metadata responses. A
producer is told that the partition has no leader, so that it uses another partition or waits. A consumer is
given the backup as leader.

A connection that has sent no telling request yet, or both kinds, is treated as a consumer. A consumer that
is told of no leader has no broker to fetch from, so its kind would never be known. A producer that is sent
to the backup is refused there, and its Produce request shows its kind.
"""

from typing import Final

UNKNOWN: Final = 0
PRODUCES: Final = 1
READS: Final = 2

_OF_API: dict[int, int] = {
    0: PRODUCES,  # Produce
    22: PRODUCES,  # InitProducerId
    24: PRODUCES,  # AddPartitionsToTxn
    26: PRODUCES,  # EndTxn
    1: READS,  # Fetch
    2: READS,  # ListOffsets
    8: READS,  # OffsetCommit
    9: READS,  # OffsetFetch
    11: READS,  # JoinGroup
    12: READS,  # Heartbeat
    14: READS,  # SyncGroup
    23: READS,  # OffsetForLeaderEpoch
    68: READS,  # ConsumerGroupHeartbeat
}
KINDS: Final = tuple(_OF_API.get(api_key, UNKNOWN) for api_key in range(128))
"""The kind of client that sends an API, by API key."""


def kind_of(api_key: int) -> int:
    return KINDS[api_key] if 0 <= api_key < len(KINDS) else UNKNOWN


def only_produces(kinds: int) -> bool:
    return kinds == PRODUCES
