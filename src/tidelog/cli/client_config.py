"""How the commands connect: ``--config client.properties``, with the names of Kafka's clients.

Owns which file a command uses. In this order: ``--config`` (or ``TIDELOG_CONFIG``), the profile's, and that
of the cluster that `tidelog up --tls` runs in this directory. The last two belong to addresses: who names
others with --bootstrap does not get them; who names brokers of this directory's cluster gets its file. What
a setting means is known to the data source of Spark, which has the same ones; librdkafka's names are
understood, too.
"""

import ssl
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.profile.store import active_config
from tidelog.client.librdkafka import librdkafka_settings
from tidelog.client.properties import parse_properties
from tidelog.client.settings import OPEN, Security

VARIABLE = "TIDELOG_CONFIG"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
USUAL_DIRECTORY = Path(".tidelog")
NAME = "client.properties"

_PREFIXES = ("security.", "ssl.", "sasl.", "enable.ssl.")
_BOOTSTRAP = "bootstrap.servers"
# librdkafka's names of what Java's clients call otherwise.
_SAME = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
# Without a meaning here: TLS 1.2 and 1.3 are always on, and tokens come from where the other settings say.
_WITHOUT_EFFECT = frozenset(
    {"ssl.protocol", "ssl.enabled.protocols", "ssl.provider", "sasl.oauthbearer.method", "security.providers"}
)
_PATHS = {
    "ssl.truststore.location": "trusted_path",
    "ssl.keystore.location": "chain_path",
    "ssl.key.location": "key_path",
}


class ClientConfig(NamedTuple):
    """Of one file."""

    security: Security = OPEN
    bootstrap: str | None = None  # the addresses in the file

    @property
    def librdkafka(self) -> dict[str, Any]:
        return librdkafka_settings(self.security)


_chosen: Path | None = None  # of the command that runs in this process
_named: str | None = None  # the --bootstrap of that command


def choose(path: Path | None) -> None:
    """Use this file for all connections of this command; None: none was named."""
    global _chosen
    _chosen = path


def name_bootstrap(bootstrap: str | None) -> None:
    """This command got --bootstrap (or its variable); None: it did not."""
    global _named
    _named = bootstrap


def choose_of(directory: Path) -> None:
    """Use the file of the cluster in this directory, unless --config names one. A profile is about others."""
    if _chosen is None:
        beside = directory / NAME
        choose(beside if beside.exists() else None)


def is_given(bootstrap: str) -> bool:
    """Whether somebody named these addresses. Who names the default one means it, and no other cluster."""
    return bootstrap != DEFAULT_BOOTSTRAP or _named == bootstrap


def refuse_chosen(why: str) -> None:
    """For what cannot use a file yet: ignoring it would connect without what was asked for."""
    if _chosen is not None:
        raise InvalidCommandLine(f"--config (or {VARIABLE}) is not possible here: {why}.")


def config_path(bootstrap: str = DEFAULT_BOOTSTRAP, directory: Path = USUAL_DIRECTORY) -> Path | None:
    """The file for these addresses; the default, if nobody named it, stands for none."""
    if _chosen is not None:
        return _chosen.expanduser()
    beside = directory / NAME
    if is_given(bootstrap):
        return beside if beside.exists() and _is_of(beside, bootstrap) else None
    of_profile = active_config()
    if of_profile is not None:
        return Path(of_profile) if of_profile else None
    return beside if beside.exists() else None


def _is_of(path: Path, bootstrap: str) -> bool:
    """Whether this file of a cluster has all these addresses."""
    return set(bootstrap.split(",")) <= set(_properties(path).get(_BOOTSTRAP, "").split(","))


def client_config(bootstrap: str = DEFAULT_BOOTSTRAP, directory: Path = USUAL_DIRECTORY) -> ClientConfig:
    path = config_path(bootstrap, directory)
    return ClientConfig() if path is None else read(path.absolute())


def kafka_options(bootstrap: str = DEFAULT_BOOTSTRAP) -> dict[str, str]:
    """The same as options of the data source of Spark. Has passwords: not for a log."""
    path = config_path(bootstrap)
    return {} if path is None else _options(path, _properties(path))


@lru_cache
def read(path: Path) -> ClientConfig:
    """CommandFailed says what is wrong with the file, and never shows a password."""
    from tidelog.spark.client_settings import client_settings
    from tidelog.spark.options import OptionError, Options

    values = _properties(path)
    options = {f"kafka.{_BOOTSTRAP}": DEFAULT_BOOTSTRAP} | _options(path, values)
    try:
        settings = client_settings(Options(options))
    except OptionError as error:
        sentence = str(error).replace("Option kafka.", "").replace("kafka.", "")
        raise CommandFailed(f"{path}: {sentence}") from None
    security = Security(settings.tls, settings.sasl)
    _check(path, security)
    return ClientConfig(security, values.get(_BOOTSTRAP) or None)


def _properties(path: Path) -> dict[str, str]:
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise CommandFailed(f"{path} cannot be read: it is not UTF-8 text.") from None
    except ValueError as error:
        raise CommandFailed(f"{path}: {error}.") from None


def _options(path: Path, values: Mapping[str, str]) -> dict[str, str]:
    """What concerns connections. The file may be that of a program, whose other settings are its own."""
    from tidelog.spark.client_settings import is_known

    found = {}
    for given, value in values.items():
        name = _SAME.get(given, given)
        if not name.startswith(_PREFIXES) or name in _WITHOUT_EFFECT:
            continue
        if name == "enable.ssl.certificate.verification":
            if value.strip().lower() != "true":
                raise CommandFailed(f"{path}: {name}={value} is not possible here: who answers is verified.")
        elif is_known(name):
            found[f"kafka.{name}"] = value
        else:
            print(f"tidelog: {path}: {name} is not known here and ignored", file=sys.stderr, flush=True)
    return found


def _check(path: Path, security: Security) -> None:
    """Before the first connection: OpenSSL does not say which file is missing."""
    tls = security.tls
    if tls is None:
        return
    for name, field in _PATHS.items():
        location = getattr(tls, field)
        try:
            if location is not None:
                Path(location).read_bytes()
        except OSError as error:
            raise CommandFailed(
                f"{path}: {name} is {location}, which cannot be read: {error.strerror or error}."
            ) from None
    from tidelog.client.tls import context

    try:
        context(tls)
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise CommandFailed(
            f"{path}: the certificates, the key or its password are not valid: {reason}."
        ) from None
