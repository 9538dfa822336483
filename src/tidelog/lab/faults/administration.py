"""Administration as a fault: what an operator may do at the wrong moment, over the public protocol."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from tidelog.client.administration import OF_BROKER, OF_TOPIC, alter_settings, reassign
from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError
from tidelog.client.settings import ClientSettings
from tidelog.config.modes import MODES, WITHOUT_MEANING
from tidelog.config.topic import REPLICATION_MODE
from tidelog.lab.faults.errors import FaultError
from tidelog.lab.faults.injected import Injected
from tidelog.lab.faults.parties import Parties, brokers_of, words_of
from tidelog.lab.faults.processes import Processes

DRAIN_SETTING = "broker.drain"
Values = Mapping[str, object]


class Administered(Processes, Protocol):
    @property
    def client_bootstrap(self) -> str: ...


def move(cluster: Administered, parties: Parties, values: Values) -> Injected:
    """Replicas on these brokers move to brokers that have none of the partition."""
    topic, away = _topic(parties), brokers_of(parties.first)
    with _client(cluster) as client:
        partitions = client.topics([topic])[topic].partitions
        targets = {}
        for number, partition in partitions.items():
            replicas = moved(partition.replicas, away, cluster.brokers)
            if replicas is None:
                raise FaultError(f"There is no other broker to move {topic}-{number} to.")
            targets[topic, number] = replicas
        reassign(client, targets)
    return Injected(f"move of {topic} away from {words_of(parties.first)}")


def moved(replicas: Sequence[int], away: Sequence[int], brokers: Sequence[int]) -> list[int] | None:
    """The replicas with others instead of those to leave, in their places; None: there are not enough."""
    free = [broker for broker in brokers if broker not in replicas and broker not in away]
    leaving = [replica for replica in replicas if replica in away]
    if len(free) < len(leaving):
        return None
    instead = dict(zip(leaving, free, strict=False))
    return [instead.get(replica, replica) for replica in replicas]


def drain(cluster: Administered, parties: Parties, values: Values) -> Injected:
    def change(value: str | None) -> None:
        with _client(cluster) as client:
            for number in brokers_of(parties.first):
                alter_settings(client, OF_BROKER, str(number), {DRAIN_SETTING: value})

    change("true")
    return Injected(f"drain of {words_of(parties.first)}", partial(change, None))


def change_mode(cluster: Administered, parties: Parties, values: Values) -> Injected:
    topic, mode = _topic(parties), str(values["mode"])
    if mode not in MODES:
        raise FaultError(f"There is no mode {mode!r}; use one of {', '.join(MODES)}.")
    with _client(cluster) as client:
        # A setting that has no meaning in the new mode would make the cluster refuse the change.
        unset = dict.fromkeys(WITHOUT_MEANING.get(mode, {}))
        alter_settings(client, OF_TOPIC, topic, {REPLICATION_MODE: mode, **unset})
    return Injected(f"change of {topic} to mode {mode}")


def change_settings(cluster: Administered, parties: Parties, values: Values) -> Injected:
    topic, settings = _topic(parties), parse_settings(str(values["settings"]))
    with _client(cluster) as client:
        alter_settings(client, OF_TOPIC, topic, settings)
    told = ", ".join(f"{name}={value}" for name, value in settings.items())
    return Injected(f"change of {topic}: {told}")


def parse_settings(text: str) -> dict[str, str]:
    """``name=value``, separated by commas."""
    found = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not name or not equals:
            raise FaultError(f"{part.strip()!r} is no setting; write name=value, separated by commas.")
        found[name.strip()] = value.strip()
    return found


def _topic(parties: Parties) -> str:
    if not parties.topic:
        raise FaultError("This fault is about a topic, and none is named.")
    return parties.topic


class _Client:
    """A client whose errors are those of faults."""

    def __init__(self, bootstrap: str) -> None:
        addresses = [address.rpartition(":") for address in bootstrap.split(",")]
        self._cluster = Cluster(ClientSettings(tuple((host, int(port)) for host, _, port in addresses)))

    def __enter__(self) -> Cluster:
        return self._cluster

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._cluster.close()
        if isinstance(error, ClientError):
            raise FaultError(str(error)) from error


def _client(cluster: Administered) -> _Client:
    return _Client(cluster.client_bootstrap)
