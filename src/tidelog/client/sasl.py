"""Authentication on a new connection: PLAIN, SCRAM (RFC 5802) and OAUTHBEARER, with Kafka's two SASL
requests.
"""

import base64
import hashlib
import hmac
import secrets
import struct
from collections.abc import Callable

from tidelog.client.errors import ClientError, error_name
from tidelog.client.settings import OAuthSettings, SaslSettings, TlsSettings

Call = Callable[[int, int, bytes], memoryview]

_SASL_HANDSHAKE = 17
_SASL_AUTHENTICATE = 36
_UNSUPPORTED_MECHANISM = 33
# Fewer would let a false broker guess the password at leisure, more would keep the client busy. Brokers of
# Kafka have 4096 to 16384; others may have more.
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 1_000_000
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class AuthenticationFailed(ClientError):
    """The broker refused; a retry will not help."""


def authenticate(call: Call, sasl: SaslSettings, tls: TlsSettings | None = None) -> None:
    mechanism = sasl.mechanism.encode()
    response = call(_SASL_HANDSHAKE, 1, struct.pack(">h", len(mechanism)) + mechanism)
    (error,) = struct.unpack_from(">h", response)
    if error == _UNSUPPORTED_MECHANISM:
        raise AuthenticationFailed(f"The broker does not support the SASL mechanism {sasl.mechanism}.")
    if error:
        raise AuthenticationFailed(
            f"The broker refuses SASL ({error_name(error)}): the listener may expect no authentication."
        )
    if sasl.oauth is not None:
        _send_token(call, sasl, sasl.oauth, tls)
        return
    if sasl.mechanism == "PLAIN":
        _exchange(call, b"\x00" + sasl.username.encode() + b"\x00" + sasl.password.encode(), sasl)
        return
    scram = Scram(_HASHES[sasl.mechanism], sasl.username, sasl.password)
    scram.finish(_exchange(call, scram.last(_exchange(call, scram.first(), sasl)), sasl))


def _send_token(call: Call, sasl: SaslSettings, oauth: OAuthSettings, tls: TlsSettings | None) -> None:
    from tidelog.client.oauth import first_message, forget, token

    text = token(oauth, tls)
    try:
        refusal = _exchange(call, first_message(oauth, text), sasl)
        if refusal:
            # The broker said why in its challenge; it ends the exchange after this answer.
            _exchange(call, b"\x01", sasl)
            raise AuthenticationFailed(f"The broker rejected the token: {refusal.decode(errors='replace')}")
    except AuthenticationFailed:
        forget(oauth)
        raise


def _exchange(call: Call, token: bytes, sasl: SaslSettings) -> bytes:
    response = call(_SASL_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token)
    error, length = struct.unpack_from(">hh", response)
    position = 4 + max(length, 0)
    if error:
        reason = bytes(response[4:position]).decode(errors="replace") or f"error {error}"
        raise AuthenticationFailed(f"The broker rejected the user {sasl.username!r}: {reason}")
    (size,) = struct.unpack_from(">i", response, position)
    return bytes(response[position + 4 : position + 4 + max(size, 0)])


class Scram:
    """The client's half of one SCRAM exchange."""

    def __init__(self, algorithm: str, username: str, password: str, nonce: str | None = None) -> None:
        self._algorithm = algorithm
        self._password = password
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(18)).decode()
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def last(self, challenge: bytes) -> bytes:
        try:
            text = challenge.decode()
            fields = dict(part.split("=", 1) for part in text.split(","))
            nonce, salt, iterations = fields["r"], base64.b64decode(fields["s"]), int(fields["i"])
        except (ValueError, KeyError):
            raise AuthenticationFailed("The broker's SCRAM challenge is not valid.") from None
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("The broker's SCRAM challenge does not belong to this exchange.")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise AuthenticationFailed(
                f"The broker asks for {iterations} iterations of SCRAM; {ITERATIONS_MIN} to {ITERATIONS_MAX} "
                "are allowed."
            )
        salted = hashlib.pbkdf2_hmac(self._algorithm, self._password.encode(), salt, iterations)
        client_key = self._mac(salted, b"Client Key")
        bare_last = f"c=biws,r={nonce}"
        signed = f"{self._bare},{text},{bare_last}".encode()
        proof = self._mac(hashlib.new(self._algorithm, client_key).digest(), signed)
        self._signature = self._mac(self._mac(salted, b"Server Key"), signed)
        mixed = bytes(mine ^ theirs for mine, theirs in zip(client_key, proof, strict=True))
        return f"{bare_last},p={base64.b64encode(mixed).decode()}".encode()

    def finish(self, final: bytes) -> None:
        """A broker that does not know the password is not trusted."""
        expected = b"v=" + base64.b64encode(self._signature)
        if not hmac.compare_digest(final.split(b",")[0], expected):
            raise AuthenticationFailed("The broker could not prove that it knows the password.")

    def _mac(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, self._algorithm).digest()
