"""The settings one broker runs with, and where each came from.

A ``BrokerConfig`` comes from a config file (TOML) with ``--set`` on top, and, for settings marked dynamic,
from AlterConfigs while the broker runs: then a new one replaces the old. It remembers which values were
given, and at which level, because clients ask.

Opens no file: the caller reads ``broker.toml`` and passes the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from tidelog.config.broker_table import BrokerTable
from tidelog.config.controllers import BROKER_ROLE, CONTROLLER_ROLE
from tidelog.config.kinds import Raw
from tidelog.config.table import Setting, refuse, refuse_unknown, settings_of, shown
from tidelog.config.toml import read_toml
from tidelog.config.topic import TOPIC_SETTINGS, TopicConfig, defaults_from
from tidelog.errors import InvalidConfig


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BrokerConfig(BrokerTable):
    """Typed values of all broker settings. Make one with ``parse`` or ``load``."""

    static_values: Mapping[str, str] = field(default_factory=dict)
    """What the config file and ``--set`` gave, in Kafka's spelling; needs a restart to change."""
    dynamic_values: Mapping[str, str] = field(default_factory=dict)
    """What AlterConfigs gave for this broker; wins over everything else."""
    dynamic_defaults: Mapping[str, str] = field(default_factory=dict)
    """What AlterConfigs gave for all brokers of the cluster; wins over the config file."""

    topic_defaults: Mapping[str, Any] = field(init=False)
    """Attributes of a topic without overrides, worked out once."""
    topic_configs: WeakValueDictionary[frozenset[tuple[str, str]], TopicConfig] = field(
        init=False, default_factory=WeakValueDictionary
    )
    """Instances in use, by overrides. Weak, so that what topics had before a change is not kept."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "topic_defaults", defaults_from(self))

    def __repr__(self) -> str:
        given = {**self.static_values, **self.dynamic_defaults, **self.dynamic_values}
        return f"BrokerConfig({given})"

    @classmethod
    def parse(cls, values: Mapping[str, Raw]) -> BrokerConfig:
        """From values by name; refuses unknown names and values, naming what is allowed."""
        return _build(_canonical(values), {}, {})

    @classmethod
    def load(cls, toml_text: str, overrides: Mapping[str, Raw] | None = None) -> BrokerConfig:
        """From a config file's text, with the values of ``--set`` on top."""
        return _build(_canonical(read_toml(toml_text)) | _canonical(overrides or {}), {}, {})

    def with_dynamic(
        self, values: Mapping[str, str], defaults: Mapping[str, str] | None = None
    ) -> BrokerConfig:
        """With what AlterConfigs gave for this broker and for all brokers, replacing earlier such values."""
        check_dynamic_broker(values)
        check_dynamic_broker(defaults or {})
        return _build(self.static_values, _canonical(values), _canonical(defaults or {}))


BROKER_SETTINGS: Mapping[str, Setting] = settings_of(BrokerConfig)

_ALIASES = {alias: name for name, setting in BROKER_SETTINGS.items() for alias in setting.aliases}

_ONE_LOOP = "one event loop serves all connections, so it has no threads"
_NOT_HERE: dict[str, str] = {
    "num.network.threads": _ONE_LOOP,
    "num.io.threads": _ONE_LOOP,
    "zookeeper.connect": "brokers of this version need no ZooKeeper",
} | {
    setting.name: f"as a default for all topics it is called {setting.synonyms[0].name}"
    if setting.synonyms
    else "it is set per topic"
    for setting in TOPIC_SETTINGS.values()
    if setting.name not in BROKER_SETTINGS
}
_NOT_HERE["replication.mode"] = "for new topics that name none it is called default.replication.mode"


def broker_setting(name: str) -> Setting:
    """The row of a broker setting, also by an alias; refuses a name that is none."""
    setting = BROKER_SETTINGS.get(_ALIASES.get(name, name))
    if setting is None:
        refuse_unknown(name, "broker", [*BROKER_SETTINGS, *_ALIASES], _NOT_HERE)
    return setting


def check_dynamic_broker(overrides: Mapping[str, str]) -> None:
    """Refuse values that a running broker cannot take on."""
    for name, text in overrides.items():
        setting = broker_setting(name)
        if not setting.dynamic:
            how = "set it in the config file and restart the broker"
            raise InvalidConfig(f"{name} cannot be changed while the broker runs: {how}.")
        setting.parse(text)


def _canonical(values: Mapping[str, Raw]) -> dict[str, str]:
    """Checked values in Kafka's spelling, by the settings' first names."""
    canonical: dict[str, str] = {}
    for name, raw in values.items():
        setting = broker_setting(name)
        text = setting.spell(raw)
        if canonical.setdefault(setting.name, text) != text:
            other = canonical[setting.name]
            raise InvalidConfig(
                f"{name}={shown(raw)} is refused: {setting.name} is the same setting, with value {other}."
            )
    return canonical


def _build(
    static: Mapping[str, str], dynamic: Mapping[str, str], dynamic_defaults: Mapping[str, str]
) -> BrokerConfig:
    values: dict[str, Any] = {}
    for name, text in {**static, **dynamic_defaults, **dynamic}.items():
        setting = BROKER_SETTINGS[name]
        values[setting.attribute] = setting.parse(text)
    listeners = values.get("listeners", BROKER_SETTINGS["listeners"].default)
    inner = values.get("controller_listener_names", ())
    for_clients = tuple(listener for listener in listeners if listener.name not in inner)
    values.setdefault("advertised_listeners", for_clients or listeners)
    config = BrokerConfig(
        **values, static_values=static, dynamic_values=dynamic, dynamic_defaults=dynamic_defaults
    )
    _check_together(config)
    return config


def _check_together(config: BrokerConfig) -> None:
    """Rules between settings, checked when all of them are known."""
    names = {listener.name for listener in config.listeners}
    for listener in config.advertised_listeners:
        if listener.name not in names:
            allowed = "a name from listeners: " + ", ".join(sorted(names))
            refuse("advertised.listeners", str(listener), allowed)
    _check_controllers(config, names)
    for_clients = names - set(config.controller_listener_names)
    if len(for_clients) > 1:
        # Every client is told the same address, so those of a second listener would be sent elsewhere.
        told = ",".join(map(str, config.listeners))
        refuse("listeners", told, "one listener for clients; list all others in controller.listener.names")
    if 0 <= config.queued_max_request_bytes < config.socket_request_max_bytes:
        # One allowed request could never be read, and its connection would hang.
        allowed = f"at least socket.request.max.bytes, which is {config.socket_request_max_bytes}, or -1"
        refuse("queued.max.request.bytes", config.queued_max_request_bytes, allowed)


def _check_controllers(config: BrokerConfig, listener_names: set[str]) -> None:
    voters = {voter.node_id for voter in config.controller_quorum_voters}
    told = ",".join(map(str, config.controller_quorum_voters))
    if CONTROLLER_ROLE not in config.process_roles:
        if not voters:
            how = "at least one controller, because process.roles says that this node is not one"
            refuse("controller.quorum.voters", told, how)
        if config.node_id in voters:
            how = f"without node {config.node_id}, because process.roles says that it is not a controller"
            refuse("controller.quorum.voters", told, how)
        return
    for name in config.controller_listener_names:
        if name not in listener_names:
            allowed = "a name from listeners: " + ", ".join(sorted(listener_names))
            refuse("controller.listener.names", name, allowed)
    if BROKER_ROLE in config.process_roles and listener_names <= set(config.controller_listener_names):
        allowed = "some of the names from listeners, but not all: clients need one"
        refuse("controller.listener.names", ",".join(config.controller_listener_names), allowed)
