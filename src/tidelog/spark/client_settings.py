"""Client settings from ``kafka.*`` options: the names of the Java client, as in Spark's own source.

Owns their meaning here, and warns about those without one. librdkafka's names of the same settings are
understood, too.
"""

import re
from urllib.parse import urlsplit

from tidelog.client.settings import ClientSettings, OAuthSettings, SaslSettings, parse_bootstrap
from tidelog.spark.key_stores import tls_settings
from tidelog.spark.options import KAFKA_PREFIX, OptionError, Options, warn_once

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
ISOLATION = ("read_uncommitted", "read_committed")

_JAAS_PAIR = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")

# Settings that the reader or writer use, that change nothing here, or that Spark's users commonly give: no
# warning.
_SILENT = frozenset(
    {
        "bootstrap.servers", "client.id", "security.protocol", "sasl.mechanism", "sasl.username",
        "sasl.password", "sasl.jaas.config", "ssl.ca.location", "ssl.truststore.location",
        "ssl.truststore.certificates", "ssl.truststore.type", "ssl.truststore.password",
        "ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.certificate.chain",
        "ssl.keystore.password",
        "ssl.keystore.key", "ssl.key.password", "ssl.certificate.location", "ssl.key.location",
        "ssl.endpoint.identification.algorithm", "request.timeout.ms", "retry.backoff.ms",
        "receive.buffer.bytes", "send.buffer.bytes", "socket.connection.setup.timeout.ms",
        "client.rack", "isolation.level", "max.partition.fetch.bytes", "fetch.max.bytes",
        "fetch.max.wait.ms", "fetch.min.bytes", "check.crcs", "max.poll.records", "group.id", "acks",
        "compression.type", "linger.ms", "batch.size", "transaction.timeout.ms", "delivery.timeout.ms",
        "max.request.size", "enable.idempotence", "max.in.flight.requests.per.connection", "retries",
        "transactional.id", "buffer.memory", "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.scope",
        "sasl.oauthbearer.extensions", "sasl.oauthbearer.method", "sasl.login.callback.handler.class",
    }
)  # fmt: skip


def is_known(name: str) -> bool:
    """Whether the option ``kafka.NAME`` gets no warning."""
    return name in _SILENT


def client_settings(options: Options) -> ClientSettings:
    """The settings of the options; unknown ones are reported once and ignored."""
    protocol = options.choice("kafka.security.protocol", PROTOCOLS, "PLAINTEXT")
    for name in options.names():
        if name.startswith(KAFKA_PREFIX) and name.removeprefix(KAFKA_PREFIX) not in _SILENT:
            warn_once(f"Option {name} means nothing to this data source and is ignored.")
    return ClientSettings(
        bootstrap=_addresses(options.required("kafka.bootstrap.servers", "127.0.0.1:9092")),
        client_id=options.text("kafka.client.id") or "tidelog-spark",
        tls=tls_settings(options) if protocol.endswith("SSL") else None,
        sasl=_sasl(options) if protocol.startswith("SASL") else None,
        request_timeout_ms=options.whole("kafka.request.timeout.ms", 30_000, least=1),
        connect_timeout_ms=options.whole("kafka.socket.connection.setup.timeout.ms", 10_000, least=1),
        retry_backoff_ms=options.whole("kafka.retry.backoff.ms", 100),
    )


def _addresses(text: str) -> tuple[tuple[str, int], ...]:
    named = ",".join(filter(None, (part.strip() for part in text.split(","))))
    if not named:
        raise OptionError(f"Option kafka.bootstrap.servers is {text!r}; allowed: host:port,host:port.")
    try:
        return parse_bootstrap(named)
    except ValueError as error:
        raise OptionError(f"Option kafka.bootstrap.servers is {text!r}; {error}.") from None


def _sasl(options: Options) -> SaslSettings:
    mechanism = options.choice("kafka.sasl.mechanism", MECHANISMS, "PLAIN")
    found = _JAAS_PAIR.findall(options.text("kafka.sasl.jaas.config") or "")
    pairs = {name: _ESCAPED.sub(r"\1", value) for name, value in found}
    if mechanism == OAUTHBEARER:
        oauth = _oauth(options, pairs)
        return SaslSettings(mechanism, oauth.subject or oauth.client_id or oauth.token_url, "", oauth)
    username, password = options.text("kafka.sasl.username"), options.text("kafka.sasl.password")
    if username is None:
        username, password = pairs.get("username"), pairs.get("password")
    if username is None or password is None:
        raise OptionError(
            "Option kafka.sasl.jaas.config names no user; give it, "
            "or kafka.sasl.username and kafka.sasl.password."
        )
    return SaslSettings(mechanism, username, password)


def _oauth(options: Options, jaas: dict[str, str]) -> OAuthSettings:
    """From the names of Kafka 4.1, of librdkafka, or of the login module (Kafka 3.1), in this order."""
    prefix = "kafka.sasl.oauthbearer."

    def first(*names: str, module: str) -> str:
        return next(filter(None, (options.text(prefix + name) for name in names)), jaas.get(module, ""))

    client_id = first("client.credentials.client.id", "client.id", module="clientId")
    secret = first("client.credentials.client.secret", "client.secret", module="clientSecret")
    url = options.text(f"{prefix}token.endpoint.url") or ""
    extensions = {
        name.removeprefix("extension_"): value
        for name, value in jaas.items()
        if name.startswith("extension_")
    }
    for pair in filter(None, (options.text(f"{prefix}extensions") or "").split(",")):
        name, _, value = pair.partition("=")
        extensions[name.strip()] = value.strip()
    subject = jaas.get("unsecuredLoginStringClaim_sub")
    if subject is None and urlsplit(url).scheme not in ("http", "https", "file"):
        raise OptionError(
            f"Option {prefix}token.endpoint.url is {url!r}; OAUTHBEARER needs the https: address of the "
            "token's provider, or a file: that has the token."
        )
    if subject is None and not url.startswith("file:") and not (client_id and secret):
        raise OptionError(
            "Option kafka.sasl.jaas.config has no clientId and clientSecret; give them, "
            f"or {prefix}client.credentials.client.id and {prefix}client.credentials.client.secret."
        )
    scope = first("scope", module="scope")
    return OAuthSettings(url, client_id, secret, scope, tuple(sorted(extensions.items())), subject)
