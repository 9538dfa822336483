"""The controllers of a cluster: whether a majority of them decides, why not, and what to type next.

A majority that is up need not have an active controller: they may be unable to write, or to reach each other.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster.admin import (
    BROKER_RESOURCE,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_QUORUM,
    METADATA_LOG,
)
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.cli.reach import USUAL_DIRECTORY, Address, address_in, has_ended, refused
from tidelog.client.settings import parse_bootstrap
from tidelog.errors import ErrorCode
from tidelog.planner.faults import listed
from tidelog.types import majority

VOTERS = "controller.quorum.voters"
CHECK_S = 1.0
# How long an active controller may take to answer: where too few controllers are up, and where enough
# are, which may elect one at this moment.
ACTIVE_WITHIN_S = 0.5
ELECTED_WITHIN_S = 2.0
VOTE_BYTES = 1 << 20  # With less space a controller may not be able to write its vote.


class Controllers(NamedTuple):
    """The voters of the metadata log, as the configuration of the asked broker names them."""

    voters: dict[int, Address]
    down: frozenset[int]  # that accept no connection, or do not answer
    decide: bool  # whether a majority follows an active controller
    unwritable: frozenset[int] = frozenset()  # if none is active: those that cannot write to their disks
    silent: frozenset[int] = frozenset()  # of those that are down: they accept connections
    ended: frozenset[int] = frozenset()  # of those that are down: they refuse connections

    @property
    def needed(self) -> int:
        """How many of those that are down must come back."""
        return max(majority(len(self.voters)) - (len(self.voters) - len(self.down)), 1)


def find_controllers(client: ClusterClient) -> Controllers:
    voters = _voters(client)
    failures = refused([*voters.values()], CHECK_S)
    quiet = client.silent(address for address in voters.values() if address not in failures)
    silent = frozenset(voter for voter, address in voters.items() if address in quiet)
    down = silent | {voter for voter, address in voters.items() if address in failures}
    ended = frozenset(voter for voter, address in voters.items() if has_ended(failures.get(address)))
    enough = len(voters) - len(down) >= majority(len(voters))
    if _has_active(client, ELECTED_WITHIN_S if enough else ACTIVE_WITHIN_S):
        return Controllers(voters, down, decide=True, silent=silent, ended=ended)
    there = {voter: address for voter, address in voters.items() if enough and voter not in down}
    unwritable = frozenset(
        voter for voter, address in there.items() if has_failed_disk(client, address, VOTE_BYTES)
    )
    return Controllers(voters, down, decide=False, unwritable=unwritable, silent=silent, ended=ended)


def _voters(client: ClusterClient) -> dict[int, Address]:
    """Of the configuration: the voters of today are known to the active controller only."""
    resource = {
        "resource_type": BROKER_RESOURCE,
        "resource_name": "",
        "configuration_keys": [VOTERS],
    }
    for broker in client.connected_brokers():
        response = client.ask(
            None, DESCRIBE_CONFIGS, {"resources": [resource | {"resource_name": str(broker)}]}
        )
        values = [config.value for result in response.results for config in result.configs]
        named = [each.partition("@") for value in values if value for each in value.split(",")]
        if named:
            return {int(node): Address(*parse_bootstrap(address)[0]) for node, _, address in named}
    return {}


def controllers_of(client: ClusterClient) -> tuple[int, ...]:
    """The voters of the metadata log, as the active controller knows them; without one, as the configuration
    names them.
    """
    if not _has_active(client, ACTIVE_WITHIN_S):
        return tuple(_voters(client))
    controllers = cluster_admin.quorum(client)["controllers"]
    return tuple(each["controller"] for each in controllers if each["role"] != "observer")


def _has_active(client: ClusterClient, within_s: float) -> bool:
    """Whether an active controller answers. The voters may be others than those of the file; and those that
    are up need not have elected one, if they cannot write or are cut off from each other.
    """
    topics = [{"topic_name": METADATA_LOG, "partitions": [{"partition_index": 0}]}]
    try:
        response = client.ask_quickly(DESCRIBE_QUORUM, {"topics": topics}, within_s)
    except CommandFailed:
        return False
    if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return True  # A user who may not ask this is told by the request itself whether it works.
    return not response.error_code and not response.topics[0].partitions[0].error_code


def require_controllers(client: ClusterClient, otherwise: str = "Nothing can be changed now") -> None:
    """Fail at once, and with the cause, where the cluster could not decide anything."""
    require_active(find_controllers(client), otherwise)


def require_coordinators(client: ClusterClient, whose: str, topic: str) -> None:
    """Before the first question for a coordinator, which makes their topic: the broker waits until it is
    made, and without controllers that is in vain.
    """
    if client.metadata(topic).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        require_controllers(
            client, f"{whose} has no coordinator now, because {topic} does not exist yet and cannot be made"
        )


def require_active(found: Controllers, otherwise: str = "Nothing can be changed now") -> None:
    if not found.decide:
        raise CommandFailed(f"{otherwise}: {without_controllers(found)}")


def check_controllers(bootstrap: str) -> None:
    with ClusterClient(bootstrap) as client:
        require_controllers(client)


def has_failed_disk(client: ClusterClient, address: Address, least_bytes: int = 0) -> bool:
    """Whether a broker cannot write some of its logs, or has less space left."""
    try:
        response = client.ask(address, DESCRIBE_LOG_DIRS, {"topics": []})
    except CommandFailed:
        return False  # It has failed since, or is a controller only.
    return any(
        result.error_code == ErrorCode.KAFKA_STORAGE_ERROR or 0 <= result.usable_bytes < least_bytes
        for result in response.results
    )


# --- in words --------------------------------------------------------------------------------------------


def without_controllers(found: Controllers) -> str:
    if len(found.voters) - len(found.down) >= majority(len(found.voters)):
        return _without_active(found)
    one = len(found.down) == 1
    if len(found.voters) == 1:
        return f"the only controller, {min(found.down)}, does not answer. {_way(found, 'it')}"
    some = {1: "one of them", len(found.down): "them"}.get(found.needed, f"{found.needed} of them")
    return (
        f"controller{'' if one else 's'} {listed(sorted(found.down))} of {listed(sorted(found.voters))} "
        f"{'does' if one else 'do'} not answer, so no majority decides. {_way(found, some)}"
    )


def _way(found: Controllers, some: str) -> str:
    """What to do about those that are down. A process that runs cannot be started."""
    startable = sorted(found.down - found.silent)
    if startable:
        some = some if len(startable) >= found.needed and not found.silent else listed(startable)
        return f"Start {some}: {start(startable[: found.needed], found.voters)}."
    them = (
        "It accepts connections, so it is" if len(found.down) == 1 else "They accept connections, so they are"
    )
    return f"{them} starting, frozen or overloaded; see broker.log."


def _without_active(found: Controllers) -> str:
    """Enough of them are up."""
    none = f"none of the controllers {listed(sorted(found.voters))} is active, though enough are up"
    if len(found.voters) == 1:
        none = f"the only controller, {min(found.voters)}, is up and not active"
    if not found.unwritable:
        return (
            f"{none}: they are starting, or do not reach each other. Try again; if it stays so, see "
            "broker.log."
        )
    one = len(found.unwritable) == 1
    return (
        f"{none}, because {listed(sorted(found.unwritable))} cannot write to "
        f"{'its disk' if one else 'their disks'}. Free space or replace the disk, then restart the "
        f"{'broker' if one else 'brokers'}."
    )


def what_next(found: Controllers, verb: str) -> str:
    """The end of a plan that was only shown."""
    if found.decide:
        return f"Nothing was changed; pass --yes to {verb}."
    return f"Nothing was changed, and nothing can be now: {without_controllers(found)}"


def start(brokers: Iterable[int], addresses: Mapping[int, Address]) -> str:
    """How brokers are started again, if their files are in this directory; otherwise how the first one is.
    The cluster of this directory may be another one, so the addresses decide.
    """
    wanted = sorted(brokers)
    files = {each: USUAL_DIRECTORY / f"broker-{each}" / "broker.toml" for each in wanted}
    if all(address_in(files[each]) == addresses[each] for each in wanted):
        return ", ".join(f"`tidelog broker start {each}`" for each in wanted)
    return f"`tidelog broker --config DIR/broker-{wanted[0]}/broker.toml`"
