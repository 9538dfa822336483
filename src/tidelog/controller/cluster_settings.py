"""Settings that must be the same on all brokers: the controllers use them to decide which replicas a
partition can do without, while each leader uses its own.

If they are set for all brokers in the running cluster they cannot differ, and setting them for a single
broker is refused. In config files they can differ. So a broker sends the values of its file with its
registration, and the active controller compares them with its own.
"""

from collections.abc import Iterator, Mapping

from tidelog.config import BrokerConfig

Values = tuple[tuple[str, int], ...]

CLUSTER_WIDE_SETTINGS = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "log.flush.interval.messages",
)
VALUE_MAX = 32_767  # Values are sent as 16 bits. Two values above this count as equal.


def values_of(config: BrokerConfig) -> Values:
    """The values from a broker's own file, or the defaults."""
    own = config.with_dynamic({})
    values = (own.min_insync_replicas, own.unclean_leader_election_enable, own.log_flush_interval_messages)
    return tuple(
        (name, min(int(value), VALUE_MAX)) for name, value in zip(CLUSTER_WIDE_SETTINGS, values, strict=True)
    )


def differences(ours: Values, theirs: Values, for_all: Mapping[str, str]) -> Iterator[tuple[str, int, int]]:
    """(setting, our value, their value). ``for_all``: settings of all brokers, which override the files."""
    known = dict(ours)
    for name, value in theirs:
        if name in known and name not in for_all and known[name] != value:
            yield name, known[name], value
