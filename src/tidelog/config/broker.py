"""The settings one broker runs with, and where each came from.

A ``BrokerConfig`` comes from a config file (TOML) with ``--set`` on top, and, for settings marked dynamic,
from AlterConfigs while the broker runs: then a new one replaces the old. It remembers which values were
given, and at which level, because clients ask.

Opens no file: the caller reads ``broker.toml`` and passes the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

from tidelog.config.controllers import BROKER_ROLE, CONTROLLER_ROLE
from tidelog.config.kinds import Raw
from tidelog.config.listener_rules import check_listeners, protocol_of, with_protocols
from tidelog.config.listeners import Listener, SecurityProtocol
from tidelog.config.per_listener import ListenerValues, Scoped, name_of, scoped
from tidelog.config.sasl_table import SaslTable
from tidelog.config.table import HIDDEN, Setting, refuse, refuse_unknown, settings_of, shown
from tidelog.config.toml import read_toml
from tidelog.config.topic import TOPIC_SETTINGS, TopicConfig, defaults_from
from tidelog.errors import InvalidConfig


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BrokerConfig(SaslTable):
    """Typed values of all broker settings. Make one with ``parse`` or ``load``."""

    static_values: Mapping[str, str] = field(default_factory=dict)
    """What the config file and ``--set`` gave, in Kafka's spelling; needs a restart to change."""
    dynamic_values: Mapping[str, str] = field(default_factory=dict)
    """What AlterConfigs gave for this broker; wins over everything else."""
    dynamic_defaults: Mapping[str, str] = field(default_factory=dict)
    """What AlterConfigs gave for all brokers of the cluster; wins over the config file."""

    listener_values: ListenerValues = field(default_factory=dict)
    """What was given for single listeners."""

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
        hidden = {name: HIDDEN if broker_setting(name).secret else text for name, text in given.items()}
        return f"BrokerConfig({hidden})"

    def of_listener(self, name: str) -> BrokerConfig:
        """With the values of one listener in the place of those of all listeners."""
        values = self.listener_values.get(name)
        return replace(self, **values) if values else self

    @property
    def client_listeners(self) -> tuple[Listener, ...]:
        """Those that clients are told of."""
        inner = self.controller_listener_names
        return tuple(listener for listener in self.listeners if listener.name not in inner)

    @property
    def inter_broker_listener(self) -> Listener:
        """Where other nodes connect to this one, as it was configured. Of a node that is only a controller
        it is the first of its listeners.
        """
        for listener in self.client_listeners:
            if self.inter_broker_listener_name in (None, listener.name):
                return listener
        return self.listeners[0]

    @property
    def controller_listener(self) -> Listener:
        """Where controllers and brokers connect to this controller."""
        for listener in self.listeners:
            if listener.name in self.controller_listener_names:
                return listener
        return self.inter_broker_listener

    def protocol_of(self, name: str) -> SecurityProtocol:
        """Of a listener by its name, which need not be one of this node: a broker that is no controller only
        connects to those of controllers.
        """
        for listener in self.listeners:
            if listener.name == name:
                return listener.protocol
        return protocol_of(name, self.listener_security_protocol_map)

    @property
    def linked_listener_names(self) -> frozenset[str]:
        """Listeners of other nodes that this one connects to."""
        return frozenset({self.inter_broker_listener.name, *self.controller_listener_names[:1]})

    @property
    def peer_listener_names(self) -> frozenset[str]:
        """Listeners that take requests of other nodes."""
        return frozenset({self.inter_broker_listener.name, *self.controller_listener_names})

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
    """The row of a broker setting, also by an alias or for one listener; refuses a name that is none."""
    return _row_of(scoped(name), name)


def canonical_name(name: str) -> str:
    """The first name of a broker setting, with the listener that it is for."""
    parts = scoped(name)
    return name_of(parts.listener, _row_of(parts, name))


def _row_of(parts: Scoped, name: str) -> Setting:
    setting = BROKER_SETTINGS.get(_ALIASES.get(parts.name, parts.name))
    if setting is None:
        refuse_unknown(parts.name, "broker", [*BROKER_SETTINGS, *_ALIASES], _NOT_HERE)
    if parts.listener and not setting.per_listener:
        raise InvalidConfig(f"{setting.name} cannot be set for one listener: use it without the prefix.")
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
        parts = scoped(name)
        setting = _row_of(parts, name)
        text = setting.spell(raw)
        key = canonical_name(name)
        if canonical.setdefault(key, text) != text:
            given, other = (HIDDEN, HIDDEN) if setting.secret else (shown(raw), canonical[key])
            raise InvalidConfig(f"{name}={given} is refused: {key} is the same setting, with value {other}.")
    return canonical


def _build(
    static: Mapping[str, str], dynamic: Mapping[str, str], dynamic_defaults: Mapping[str, str]
) -> BrokerConfig:
    values: dict[str, Any] = {}
    of_listeners: dict[str, dict[str, Any]] = {}
    for name, text in {**static, **dynamic_defaults, **dynamic}.items():
        parts = scoped(name)
        setting = BROKER_SETTINGS[parts.name]
        level = of_listeners.setdefault(parts.listener, {}) if parts.listener else values
        level[setting.attribute] = setting.parse(text)
    _add_listeners(values)
    config = BrokerConfig(
        **values,
        static_values=static,
        dynamic_values=dynamic,
        dynamic_defaults=dynamic_defaults,
        listener_values=of_listeners,
    )
    _check_together(config)
    return config


def _add_listeners(values: dict[str, Any]) -> None:
    """Give listeners their protocols, and advertise those of clients unless others are given."""
    protocols = values.get("listener_security_protocol_map", ())
    listeners = with_protocols(values.get("listeners", BROKER_SETTINGS["listeners"].default), protocols)
    inner = values.get("controller_listener_names", ())
    for_clients = tuple(listener for listener in listeners if listener.name not in inner)
    advertised = values.get("advertised_listeners", for_clients or listeners)
    values |= {
        "listeners": listeners,
        "advertised_listeners": with_protocols(advertised, protocols),
    }


def _check_together(config: BrokerConfig) -> None:
    """Rules between settings, checked when all of them are known."""
    check_listeners(config)
    _check_controllers(config, {listener.name for listener in config.listeners})
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
