"""What a client does, told by what its connection has sent so far: a client does not say whether it produces
or reads, and where a primary is away the two need different answers. A producer hears that nobody leads, and
takes another partition or waits; a reader hears of a backup.

Who has sent nothing yet, or both, is taken for a reader. A reader that heard of no leader would have nobody
to ask, and never show what it is; a producer that turns to a backup is refused, and has shown it.
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
"""Api key → what it tells of a client."""


def kind_of(api_key: int) -> int:
    return KINDS[api_key] if 0 <= api_key < len(KINDS) else UNKNOWN


def only_produces(kinds: int) -> bool:
    return kinds == PRODUCES
