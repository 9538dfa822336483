"""Which connections are those of nodes, and which requests only nodes may send.

A client id says that its connection is a node's; that alone is a claim. It counts if the connection has
logged in with the cluster's secret, or if it has shown the certificate of the principal that belongs to the
node. A user with a password or a token is never a node, whatever the user's name is. In a cluster without
either, a claim is all there is, and any client can make it.
"""

import logging
from typing import cast

from tidelog.broker.handlers.add_partitions_to_txn import BATCHED_FROM
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol import envelope, fetch, follower_fetch, messages
from tidelog.runtime.peers.exchanges import BY_API
from tidelog.security.cluster_secret import ClusterSecret
from tidelog.security.principal import ANONYMOUS, USER, Principal

logger = logging.getLogger(__name__)

OFFSET_FOR_LEADER_EPOCH, ADD_PARTITIONS_TO_TXN, ALLOCATE_PRODUCER_IDS, UPDATE_RAFT_VOTER = 23, 24, 67, 82

# OffsetForLeaderEpoch is sent by consumers, too; a node gets another answer.
_PEER_APIS = (frozenset(BY_API) - {OFFSET_FOR_LEADER_EPOCH}) | {
    envelope.API_KEY, ALLOCATE_PRODUCER_IDS, UPDATE_RAFT_VOTER,
}  # fmt: skip
_MIXED = frozenset({fetch.API_KEY, ADD_PARTITIONS_TO_TXN})
_FROM_NODES = _PEER_APIS | _MIXED  # to decide about all others with one look
NODE_PRINCIPALS = "User:broker-{node}"

LOGGED_MAX = 64  # hosts, and claims, whose refusal is logged; a limit, because any can be refused


class NodeTrust:
    def __init__(
        self,
        secret: ClusterSecret | None = None,
        principals: str = NODE_PRINCIPALS,
        listeners: frozenset[str] | None = None,
        *,
        by_certificate: frozenset[str] = frozenset(),
        is_required: bool = False,
    ) -> None:
        """``principals``: that of each node, with ``{node}`` for its id. ``listeners``: names of those that
        nodes use; by default all. ``by_certificate``: names of those whose principals are of certificates.
        ``is_required``: a claim alone does not count.
        """
        self.secret = secret
        self._principals = principals
        self._listeners = listeners
        self._by_certificate = by_certificate
        self._is_required = is_required
        self._logged: set[str] = set()
        self._other_principals: set[tuple[int, Principal]] = set()

    def expects_nodes(self, listener: str) -> bool:
        """Whether nodes use this listener."""
        return self._listeners is None or listener in self._listeners

    def admits(self, principal: Principal, listener: str, node: int) -> bool:
        """Whether a connection that claims to be a node's is. One that has logged in with the secret is known
        already.
        """
        if not self.expects_nodes(listener):
            return False
        if not self._is_required and principal == ANONYMOUS:
            return True
        # A client that happens to have such a name is no node if there is a secret, and no node without a
        # certificate: those who give out passwords and tokens need not know the names of nodes.
        counts = self.secret is None or not self._is_required
        if counts and listener in self._by_certificate:
            if principal == self.principal_of(node):
                return True
            self._note_other_principal(principal, node)
        return False

    def _note_other_principal(self, principal: Principal, node: int) -> None:
        """A node with such a certificate would otherwise be sent away again and again without a reason."""
        what = (node, principal)
        if what in self._other_principals or len(self._other_principals) >= LOGGED_MAX:
            return
        self._other_principals.add(what)
        logger.warning(
            "a connection that says it is of node %d has the certificate of %s, not of %s: see "
            "inter.broker.principal and ssl.principal.mapping.rules, or set cluster.secret.file on all nodes",
            node, principal, self.principal_of(node),
        )  # fmt: skip

    def principal_of(self, node: int) -> Principal:
        kind, _, name = self._principals.replace("{node}", str(node)).partition(":")
        return Principal(kind, name) if name else Principal(USER, kind)

    def refuses(self, request: memoryview, context: RequestContext) -> bool:
        """Whether a request that is not from a node may only come from one. WriteTxnMarkers is not among
        them: administrators abort transactions with it, and its handler knows what else it takes.
        """
        api_key, version = context.api_key, context.version
        if api_key not in _FROM_NODES:
            return False
        if not self._is_required and self.expects_nodes(context.listener):
            return False
        if api_key == fetch.API_KEY:
            return follower_fetch.is_ask(request, version)
        return api_key in _PEER_APIS or version >= BATCHED_FROM

    def refusal(self, context: RequestContext) -> bytes:
        """The response to a request that only nodes may send, from a client."""
        host = context.host
        if host not in self._logged and len(self._logged) < LOGGED_MAX:
            self._logged.add(host)
            name = messages.name_of(context.api_key)
            logger.warning("refused %s of %s, which has not authenticated as a node", name, context.peer)
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if context.api_key == envelope.API_KEY:
            return envelope.encode_response(context.correlation_id, error, None, -1)
        if context.api_key == fetch.API_KEY:
            pieces = follower_fetch.encode_response(context.correlation_id, error, ())
            return b"".join(cast(list[bytes], pieces))
        return messages.encode(
            context.api_key, context.version, context.correlation_id, {"error_code": error}
        )
