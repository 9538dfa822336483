"""The rows of authentication: the secret of the nodes, and SASL."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.config.kinds import INT_MAX, LONG_MAX, Bool, ChoiceSet, Nullable, Text, Whole, Words
from tidelog.config.table import row
from tidelog.config.tls_table import TlsTable

SCRAM_256, SCRAM_512, PLAIN, OAUTHBEARER = "SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class SaslTable(TlsTable):
    """Everything that can be set about authentication, certificates apart."""

    cluster_secret_file: str | None = row(
        Nullable(Text("a path")),
        None,
        "File with the secret by which the nodes of the cluster recognise each other: at least 32 "
        "characters, the same on all nodes. Several lines are several secrets: a node logs in with the first "
        "and accepts all. A relative path starts at the config file's directory. `tidelog up` makes it.",
        unset="nodes are recognised by their certificates, if brokers use a listener that asks for them; "
        "otherwise every client that reaches the listener can act as a node",
        section="Authentication",
        ours=True,
    )
    cluster_secret_required: bool = row(
        Bool(),
        True,
        "Whether requests between nodes are refused from a connection that has not logged in with the "
        "secret. `false` while the secret is introduced in a running cluster, broker by broker.",
        ours=True,
    )
    inter_broker_principal: str = row(
        Text(
            "a principal with {node} for the id, such as User:broker-{node}",
            r"[^:]+:.*\{node\}.*",
        ),
        "User:broker-{node}",
        "The principal of each node. Where brokers recognise each other by certificates, those have to give "
        "it.",
        ours=True,
    )
    sasl_enabled_mechanisms: frozenset[str] = row(
        ChoiceSet(SCRAM_256, SCRAM_512, PLAIN, OAUTHBEARER),
        frozenset((SCRAM_256, SCRAM_512)),
        "SASL mechanisms by which clients can authenticate at SASL_PLAINTEXT and SASL_SSL listeners.",
        per_listener=True,
    )
    sasl_plain_unencrypted: bool = row(
        Bool(),
        False,
        "Whether PLAIN may be enabled at SASL_PLAINTEXT listeners, where others on the network read the "
        "passwords.",
        per_listener=True,
        ours=True,
    )
    sasl_users_file: str | None = row(
        Nullable(Text("a path")),
        None,
        "File with users besides those of the metadata log, for SCRAM and PLAIN: lines of `name:password`. "
        "docs/security.md says how passwords are hashed. Its users come first. A relative path starts at the "
        "config file's directory. A file that changes is read again without a restart.",
        unset="only the users of the metadata log",
        ours=True,
    )
    connections_max_reauth_ms: int = row(
        Whole(0, LONG_MAX, unit="ms"),
        0,
        "A client that authenticated with SASL has to do so again after this time, and not later than its "
        "token expires. Otherwise its connection is closed with the next request. 0: never.",
        per_listener=True,
    )
    sasl_server_max_receive_size: int = row(
        Whole(1024, INT_MAX, unit="bytes"),
        524_288,
        "Largest request before a client has authenticated.",
        per_listener=True,
    )
    sasl_login_timeout_ms: int = row(
        Whole(100, 600_000, unit="ms"),
        10_000,
        "A connection to a SASL listener that has not authenticated after this time is closed.",
        ours=True,
    )
    connection_failed_authentication_delay_ms: int = row(
        Whole(0, 60_000, unit="ms"),
        100,
        "How long a client waits for the answer that its authentication has failed.",
    )
    sasl_oauthbearer_jwks_file: str | None = row(
        Nullable(Text("a path")),
        None,
        "File with the public keys that verify tokens, as JWKS. Needs the package `cryptography`. A file "
        "that changes is read again without a restart.",
        unset="OAUTHBEARER cannot be enabled",
        per_listener=True,
        ours=True,
    )
    sasl_oauthbearer_expected_issuer: str | None = row(
        Nullable(Text()), None, "The issuer (`iss`) that a token has to name.", unset="any", per_listener=True
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = row(
        Words("audiences, separated by commas", r"[^,\s]+"),
        (),
        "Audiences (`aud`) of which a token has to name one.",
        unset="any",
        per_listener=True,
    )
    sasl_oauthbearer_clock_skew_seconds: int = row(
        Whole(0, 3600, unit="s"),
        30,
        "How far the clocks of the broker and of the issuer may differ.",
        per_listener=True,
    )
    sasl_oauthbearer_sub_claim_name: str = row(
        Text("the name of a claim", r"\S+"),
        "sub",
        "The claim of a token that has the name of the user.",
        per_listener=True,
    )
