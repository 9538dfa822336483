"""How a node logs in to another one: the client's side, on a connection that was just opened.

Three requests: SaslHandshake and SaslAuthenticate together, then SaslAuthenticate once more. Nothing else is
sent before the other node has proved that it knows the secret, too: a request may contain what clients have
entrusted to this node.
"""

import secrets
from collections.abc import Callable

from tidelog.errors import ErrorCode
from tidelog.protocol import sasl
from tidelog.protocol.wire import INT32
from tidelog.runtime.peers import names
from tidelog.security.cluster_secret import MECHANISM, ClusterSecret
from tidelog.security.sasl import LoginRefused
from tidelog.security.scram_client import ScramClient

_HANDSHAKE, _FIRST, _LAST = 1, 2, 3  # correlation ids, in the order of the responses


class NodeLogin:
    """One login. Give it each response; then :attr:`done` says whether the connection can be used."""

    def __init__(self, secret: ClusterSecret, me: int, to: int, *, is_required: bool = True) -> None:
        """``is_required``: without it, a node that expects no login is used all the same."""
        self._is_required = is_required
        self._has_failed = False
        self._client_id = names.client_id(me, to)
        nonce = secrets.token_hex(16)
        self._scram = ScramClient(MECHANISM, secret.user_of(me), secret.salted, nonce)
        self._expected = _HANDSHAKE
        self.done = False

    def first(self) -> bytes:
        """Sent when the connection is open."""
        handshake = sasl.encode_handshake(_HANDSHAKE, self._client_id, MECHANISM.sasl_name)
        return handshake + sasl.encode_authenticate(_FIRST, self._client_id, self._scram.first())

    def take(self, response: memoryview) -> bytes:
        """What to send next, if anything. Raises :class:`LoginRefused` or ``Malformed``."""
        (correlation_id,) = INT32.unpack_from(response, 0)
        if self.done or correlation_id != self._expected:
            raise LoginRefused("a response to no request of this login")
        self._expected += 1
        if correlation_id == _HANDSHAKE:
            error = sasl.decode_handshake_response(response)
            if error is ErrorCode.ILLEGAL_SASL_STATE and not self._is_required:
                self._has_failed = True  # And so will the request that was sent with it.
            elif error is not ErrorCode.NONE:
                raise LoginRefused(_REASONS.get(error, error.name))
            return b""
        if self._has_failed:
            self.done = True
            return b""
        told = sasl.decode_authenticate_response(response)
        if told.error is not ErrorCode.NONE:
            raise LoginRefused(told.reason or told.error.name)
        if correlation_id == _FIRST:
            return sasl.encode_authenticate(_LAST, self._client_id, self._scram.last(told.token))
        self._scram.finish(told.token)
        self.done = True
        return b""


_REASONS = {
    ErrorCode.ILLEGAL_SASL_STATE: "it expects no login of nodes: its cluster.secret.file is not set",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "it knows no cluster secret",
}

NewLogin = Callable[[int], NodeLogin]
"""A login to the node with this id."""


class NodeLogins:
    """How this node logs in to others."""

    def __init__(self, secret: ClusterSecret, me: int, is_required: bool) -> None:
        self._secret = secret
        self._me = me
        self._is_required = is_required

    def __call__(self, to: int) -> NodeLogin:
        return NodeLogin(self._secret, self._me, to, is_required=self._is_required)
