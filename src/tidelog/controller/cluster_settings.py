"""Settings that must be the same on all brokers, because the controllers decide by them whom a partition can
do without, while each leader goes by its own.

Set for all brokers in the running cluster they cannot differ, and setting them for one is refused. In config
files they can: so a broker says with its registration what its file gave it, and the active controller
compares that with its own.
"""

from collections.abc import Iterator, Mapping

from tidelog.config import BrokerConfig

Values = tuple[tuple[str, int], ...]

CLUSTER_WIDE_SETTINGS = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "log.flush.interval.messages",
)
VALUE_MAX = 32_767  # What travels has 16 bits. Two values above it pass for the same.


def values_of(config: BrokerConfig) -> Values:
    """What a broker's own file gave it, or the default."""
    own = config.with_dynamic({})
    values = (own.min_insync_replicas, own.unclean_leader_election_enable, own.log_flush_interval_messages)
    return tuple(
        (name, min(int(value), VALUE_MAX)) for name, value in zip(CLUSTER_WIDE_SETTINGS, values, strict=True)
    )


def differences(ours: Values, theirs: Values, for_all: Mapping[str, str]) -> Iterator[tuple[str, int, int]]:
    """(setting, our value, theirs). ``for_all``: what is set for all brokers, whatever their files say."""
    known = dict(ours)
    for name, value in theirs:
        if name in known and name not in for_all and known[name] != value:
            yield name, known[name], value
