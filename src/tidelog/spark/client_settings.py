"""Client settings from ``kafka.*`` options: the names of the Java client, as in Spark's own source.

Owns their meaning here, and warns about those without one. Certificates are PEM, in files or as text: Java's
own keystore files need Java.
"""

import re

from tidelog.client.settings import ClientSettings, SaslSettings, TlsSettings, parse_bootstrap
from tidelog.spark.options import KAFKA_PREFIX, OptionError, Options, warn_once

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ISOLATION = ("read_uncommitted", "read_committed")

_JAAS_PAIR = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')

# Settings that the reader or writer use, that change nothing here, or that Spark's users commonly give: no
# warning.
_SILENT = frozenset(
    {
        "bootstrap.servers", "client.id", "security.protocol", "sasl.mechanism", "sasl.username",
        "sasl.password", "sasl.jaas.config", "ssl.ca.location", "ssl.truststore.location",
        "ssl.truststore.certificates", "ssl.truststore.type", "ssl.truststore.password",
        "ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.certificate.chain",
        "ssl.keystore.key", "ssl.key.password", "ssl.certificate.location", "ssl.key.location",
        "ssl.endpoint.identification.algorithm", "request.timeout.ms", "retry.backoff.ms",
        "receive.buffer.bytes", "send.buffer.bytes", "socket.connection.setup.timeout.ms",
        "client.rack", "isolation.level", "max.partition.fetch.bytes", "fetch.max.bytes",
        "fetch.max.wait.ms", "fetch.min.bytes", "check.crcs", "max.poll.records", "group.id", "acks",
        "compression.type", "linger.ms", "batch.size", "transaction.timeout.ms", "delivery.timeout.ms",
        "max.request.size", "enable.idempotence", "max.in.flight.requests.per.connection", "retries",
        "transactional.id", "buffer.memory",
    }
)  # fmt: skip


def client_settings(options: Options) -> ClientSettings:
    """The settings of the options; unknown ones are reported once and ignored."""
    protocol = options.choice("kafka.security.protocol", PROTOCOLS, "PLAINTEXT")
    for name in options.names():
        if name.startswith(KAFKA_PREFIX) and name.removeprefix(KAFKA_PREFIX) not in _SILENT:
            warn_once(f"Option {name} means nothing to this data source and is ignored.")
    return ClientSettings(
        bootstrap=_addresses(options.required("kafka.bootstrap.servers", "127.0.0.1:9092")),
        client_id=options.text("kafka.client.id") or "tidelog-spark",
        tls=_tls(options) if protocol.endswith("SSL") else None,
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


def _tls(options: Options) -> TlsSettings:
    for kind in ("truststore", "keystore"):
        form = options.text(f"kafka.ssl.{kind}.type")
        if (form is None and options.text(f"kafka.ssl.{kind}.location")) or (form or "PEM").upper() != "PEM":
            raise OptionError(
                f"Option kafka.ssl.{kind}.type is {form or 'JKS by default'}; allowed: PEM "
                f"(convert with keytool and openssl, then set kafka.ssl.{kind}.type=PEM)."
            )
    keystore = options.text("kafka.ssl.keystore.location")
    return TlsSettings(
        trusted=options.text("kafka.ssl.truststore.certificates"),
        trusted_path=options.text("kafka.ssl.truststore.location") or options.text("kafka.ssl.ca.location"),
        chain=options.text("kafka.ssl.keystore.certificate.chain"),
        key=options.text("kafka.ssl.keystore.key"),
        chain_path=keystore or options.text("kafka.ssl.certificate.location"),
        key_path=keystore or options.text("kafka.ssl.key.location"),
        key_password=options.text("kafka.ssl.key.password"),
        check_host=options.text("kafka.ssl.endpoint.identification.algorithm", "https") == "https",
    )


def _sasl(options: Options) -> SaslSettings:
    mechanism = options.choice("kafka.sasl.mechanism", MECHANISMS, "PLAIN")
    username, password = options.text("kafka.sasl.username"), options.text("kafka.sasl.password")
    if username is None:
        pairs = dict(_JAAS_PAIR.findall(options.text("kafka.sasl.jaas.config") or ""))
        username, password = pairs.get("username"), pairs.get("password")
    if username is None or password is None:
        raise OptionError(
            "Option kafka.sasl.jaas.config names no user; give it, "
            "or kafka.sasl.username and kafka.sasl.password."
        )
    return SaslSettings(mechanism, username, password)
