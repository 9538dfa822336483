"""What a node logs in to: the server's side of :mod:`~tidelog.runtime.peers.node_login`."""

import secrets
from collections.abc import Callable

from tidelog.security import cluster_secret
from tidelog.security.cluster_secret import ClusterSecret
from tidelog.security.sasl import LoginRefused, SaslLogin
from tidelog.security.scram import ScramLogin

TOKEN_BYTES_MAX = 1024


class NodeOffer:
    mechanisms = (cluster_secret.MECHANISM.sasl_name,)
    token_bytes_max = TOKEN_BYTES_MAX

    def __init__(
        self, secret: ClusterSecret, parties: tuple[int, int], accepted: Callable[[int, int], None]
    ) -> None:
        """``parties``: which node the client says to be, and which one it wants. ``accepted`` is called with
        both if that is proved.
        """
        self._secret = secret
        self._parties = parties
        self._accepted = accepted

    def begin(self, mechanism: str) -> SaslLogin:
        decoy = secrets.token_bytes(32)  # That a secret is not known here may be seen.
        return ScramLogin(cluster_secret.MECHANISM, self._secret.credential, secrets.token_hex(16), decoy)

    def accept(self, exchange: SaslLogin) -> int:
        sender, to = self._parties
        if self._secret.node_of(exchange.user or "") != sender:
            raise LoginRefused(f"{exchange.user!r} is not node {sender}")
        self._accepted(sender, to)
        return 0
