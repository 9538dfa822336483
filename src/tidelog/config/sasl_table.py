"""The rows of authentication: the secret of the nodes, and SASL."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.config.kinds import Bool, Nullable, Text
from tidelog.config.table import row
from tidelog.config.tls_table import TlsTable


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
        "otherwise whoever reaches the listener can act as a node",
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
