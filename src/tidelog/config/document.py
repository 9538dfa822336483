"""The documentation of all settings, written from the tables so that it cannot differ from them.

``python -m tidelog.config`` prints it; docs/configuration.md is that output, and a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from tidelog.config.broker import BROKER_SETTINGS
from tidelog.config.group import GROUP_SETTINGS
from tidelog.config.kinds import INT_MAX, LONG_MAX, Kind, Nullable, Whole
from tidelog.config.modes import DEFAULTS, LEAST_REPLICAS, MODES, WITHOUT_MEANING
from tidelog.config.table import Setting
from tidelog.config.topic import TOPIC_SETTINGS

_HEAD = """\
# Configuration

<!-- Written by `python -m tidelog.config`: change the tables in src/tidelog/config, not this page. -->

Settings have Kafka's names and, where it makes sense, Kafka's defaults. Settings that only Tidelog has are
marked with †. An unknown name or a value out of range is refused with a message that says what is allowed;
nothing is ignored silently.

## Where a value comes from

Sources of a broker's settings, highest precedence first:

1. a change by a client for this broker at run time (AlterConfigs), for settings marked *live*;
2. such a change for all brokers;
3. `--set key=value` on the command line of `tidelog broker` and `tidelog up`;
4. the config file, `broker.toml`;
5. the default.

Sources of a topic's settings: the topic's own value (`tidelog topic create … --set key=value`, `tidelog topic
alter`, or any Kafka client), else the broker-wide setting in the column *broker-wide*, else the default. All
of them take effect on a live topic. Where the column names several, the first that is set decides.

The config file is TOML. Tables, dotted names and quoted names all mean the same:

```toml
node.id = 1
listeners = "PLAINTEXT://127.0.0.1:9092"
auto.create.topics.enable = false

[log]
dir = "data"
retention.hours = 48
segment.bytes = 268435456

[log.cleaner]
backoff.ms = 5000
```

If one name continues another, quote both, because TOML cannot distinguish them otherwise:

```toml
"max.connections" = 2000
"max.connections.per.ip" = 100
```

Sizes are in bytes. Times are in the unit that the name ends with. Both are plain numbers. -1 means
"no limit" where the table allows it.
"""

_LISTENERS = """\
### Listeners

A listener is `NAME://host:port`. An empty host listens on every interface, port 0 on any free port. A broker
may have several: for clients inside and outside, for other brokers, for controllers. A client is told the
addresses of the listener that it came in by. If clients cannot connect to a host in `listeners`,
`advertised.listeners` names the address they use. Those in `controller.listener.names` are for controllers
and brokers only, and are not advertised:

```toml
listeners = ["INSIDE://10.0.0.11:9092", "OUTSIDE://:9094", "BROKERS://10.0.0.11:9093"]
"advertised.listeners" = [
    "INSIDE://10.0.0.11:9092", "OUTSIDE://queue.example.org:9094", "BROKERS://10.0.0.11:9093",
]
"listener.security.protocol.map" = "INSIDE:SASL_SSL,OUTSIDE:SASL_SSL,BROKERS:SSL"
"inter.broker.listener.name" = "BROKERS"
"ssl.keystore.location" = "tls/broker-1.pem"
"ssl.truststore.location" = "tls/ca.pem"
"listener.name.brokers.ssl.client.auth" = "required"
```

The protocol of a listener is PLAINTEXT, SSL (TLS), SASL_PLAINTEXT or SASL_SSL. The rows with ‡ can be given
for one listener: `listener.name.<name>.` before the setting, with the listener's name in small letters.

The default listens on 127.0.0.1 only. A broker refuses to start with a listener that other machines reach
and that authenticates no client, unless `allow.insecure.listeners=true`. [Security](security.md) has the
whole set-up.
"""


def document() -> str:
    """The whole page, as Markdown."""
    parts = [
        _HEAD,
        "## Topic settings\n",
        *_tables(TOPIC_SETTINGS, "Broker-wide", _broker_wide),
        _modes(),
        "## Broker settings\n",
        "*live*: takes effect on a running broker; *restart*: needs a restart.\n",
        *_tables(BROKER_SETTINGS, "Change", _change),
        "## Group settings\n",
        "Of groups with the consumer protocol. Kafka's clients set them for a resource of the type GROUP.\n",
        *_tables(GROUP_SETTINGS, "Broker-wide", _broker_wide),
        _LISTENERS,
    ]
    return "\n".join(parts)


def _tables(settings: Mapping[str, Setting], column: str, cell: Callable[[Setting], str]) -> Iterator[str]:
    """One Markdown table per section."""
    rows: list[str] = []
    for setting in settings.values():
        if setting.section:
            if rows:
                yield "\n".join(rows) + "\n"
            rows = [f"### {setting.section}\n", *_header(column)]
        rows.append(_row(setting, cell(setting)))
    yield "\n".join(rows) + "\n"


def _header(column: str) -> list[str]:
    return [f"| Setting | Type | Default | Allowed | {column} | Meaning |", "|---|---|---|---|---|---|"]


def _row(setting: Setting, extra: str) -> str:
    name = f"`{setting.name}`" + (" †" if setting.ours else "") + (" ‡" if setting.per_listener else "")
    for alias in setting.aliases:
        name += f" (or `{alias}`)"
    kind = setting.kind.type.name.lower()
    # The column before says that it is a number.
    allowed = re.sub(r"^a (whole )?number (of )?", "", setting.kind.allowed)
    cells = [name, kind, _default(setting), allowed, extra, setting.doc]
    return "| " + " | ".join(cells) + " |"


def _broker_wide(setting: Setting) -> str:
    return ", ".join(f"`{synonym.name}`" for synonym in setting.synonyms)


def _change(setting: Setting) -> str:
    return "live" if setting.dynamic else "restart"


def _default(setting: Setting) -> str:
    text = setting.default_text
    if text is None:
        return setting.unset
    words = _in_words(setting.kind, setting.default)
    return f"`{text}` ({words})" if words else f"`{text}`"


def _in_words(kind: Kind[object], value: object) -> str:
    """A default that is hard to read as a number, said in a larger unit."""
    whole = kind.kind if isinstance(kind, Nullable) else kind
    if not isinstance(whole, Whole) or not isinstance(value, int):
        return ""
    if value in (LONG_MAX, INT_MAX) or (value == -1 and whole.low == -1):
        return "no limit"
    return _largest_unit(value, _UNITS.get(whole.unit, ()))


_UNITS: dict[str, Sequence[tuple[int, str]]] = {
    "bytes": ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")),
    "ms": ((86_400_000, "days"), (3_600_000, "hours"), (60_000, "minutes"), (1000, "seconds")),
    "hours": ((24, "days"),),
}


def _largest_unit(value: int, units: Sequence[tuple[int, str]]) -> str:
    for size, unit in units:
        if value >= size and value % size == 0:
            count = value // size
            return f"{count} {unit.removesuffix('s') if count == 1 else unit}"
    return ""


def _modes() -> str:
    lines = [
        "### Replication modes\n",
        "A setting without a meaning in the topic's mode is refused. The defaults of a mode override "
        "broker-wide\nsettings; the topic's own setting overrides both.\n",
        "| Mode | Minimum replicas | Own defaults | Settings without a meaning |",
        "|---|---|---|---|",
    ]
    for mode in MODES:
        refused = "; ".join(f"`{name}`: {reason}" for name, reason in WITHOUT_MEANING[mode].items())
        own = ", ".join(
            f"`{name}={TOPIC_SETTINGS[name].format(value)}`"
            for name, value in DEFAULTS[mode].items()
            if name not in WITHOUT_MEANING[mode]
        )
        lines.append(f"| `{mode}` | {LEAST_REPLICAS[mode]} | {own or 'none'} | {refused or 'none'} |")
    return "\n".join(lines) + "\n"
