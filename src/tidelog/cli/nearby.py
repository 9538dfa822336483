"""The cluster that `tidelog up` has in a directory, as its files tell it: where its brokers listen, which
cluster it is, and what starts it. Asks no broker.
"""

from pathlib import Path
from typing import NamedTuple

from tidelog.cli.failure import CommandFailed
from tidelog.cli.settings import read_broker_settings
from tidelog.config import BrokerConfig
from tidelog.errors import TidelogError
from tidelog.lab.playground.programs import is_tidelog
from tidelog.log.checkpoints import META_PROPERTIES_FILE, decode_properties
from tidelog.planner.faults import listed


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def address_in(config: Path) -> Address | None:
    """Where a broker of this machine listens, by its file. None: there is none, or `tidelog broker` says what
    is wrong with it.
    """
    settings = _settings(config)
    if settings is None:
        return None
    listener = settings.listeners[0]
    return Address("127.0.0.1" if listener.every_interface else listener.host, listener.port)


def addresses_in(directory: Path) -> list[Address]:
    found = map(address_in, _configs(directory))
    return [each for each in found if each is not None]


def cluster_ids(directory: Path) -> set[str]:
    """As the brokers' disks have it; empty before the first start. More than one: a disk of another cluster
    was put there, and its broker says so.
    """
    found = set()
    for config in _configs(directory):
        if (settings := _settings(config)) is None:
            continue
        try:
            text = (config.parent / settings.log_dir / META_PROPERTIES_FILE).read_bytes()
        except OSError:
            continue
        found.add(decode_properties(text).get("cluster.id", ""))
    return found - {""}


def how_to_start(directory: Path) -> str:
    """The command for those that do not run; empty: all of them do. Where `tidelog up` still has the
    directory, it would refuse a second one.
    """
    stopped = [config.parent for config in _configs(directory) if not _runs(config.parent / "broker.pid")]
    if not stopped:
        return ""
    if len(stopped) == len(_configs(directory)) and not _runs(directory / "up.pid"):
        return "`tidelog up` starts it"
    numbers = [each.name.removeprefix("broker-") for each in stopped]
    commands = listed([f"`tidelog broker start {number}`" for number in numbers])
    return f"{commands} {'starts it' if len(numbers) == 1 else 'start them'}"


def _configs(directory: Path) -> list[Path]:
    found = directory.glob("broker-*/broker.toml")
    return sorted(found, key=lambda path: (len(path.parent.name), path))  # broker-10 after broker-9


def _settings(config: Path) -> BrokerConfig | None:
    try:
        return BrokerConfig.parse(read_broker_settings(config))
    except (CommandFailed, TidelogError):
        return None


def _runs(pid_file: Path) -> bool:
    try:
        return is_tidelog(int(pid_file.read_text()))
    except (OSError, ValueError):
        return False
