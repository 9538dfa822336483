"""The server's side of SCRAM (RFC 5802, RFC 7677), as Kafka speaks it: without channel binding.

What it owns: credentials, and one login of a connection. It does not know where credentials are stored.
Salts, nonces and keys come in as arguments.

A credential cannot be used to log in: it has only hashes of the keys that a password gives. Whether a user
exists cannot be found out either. A login of an unknown user goes on with a made-up salt, and fails where a
wrong password fails.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from tidelog.security.sasl import LoginRefused

ITERATIONS_MIN = 4096  # Kafka's limits
ITERATIONS_MAX = 16384
# Of a user whose password was set here, and therefore of one who does not exist, too.
ITERATIONS = 8192
SALT_BYTES = 32  # as many as SHA-256 makes
MESSAGE_BYTES_MAX = 4096  # Both messages are kept until the login ends; the client is not authenticated.
NAME_SHOWN_MAX = 100  # characters in a line of the log


class ScramMechanism(IntEnum):
    """Numbered as in Kafka's requests and records."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def algorithm(self) -> str:
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @classmethod
    def of(cls, sasl_name: str) -> "ScramMechanism | None":
        return _BY_SASL_NAME.get(sasl_name)


_BY_SASL_NAME = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


class ScramCredential(NamedTuple):
    """What the server keeps of one user's password for one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        # The keys are as secret as a password's hash: no log line and no error shows them.
        return f"ScramCredential(iterations={self.iterations})"


def credential_of_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int = ITERATIONS_MIN
) -> ScramCredential:
    salted = hashlib.pbkdf2_hmac(mechanism.algorithm, password.encode(), salt, iterations)
    return credential_of_salted_password(mechanism, salted, salt, iterations)


def credential_of_salted_password(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """``salted``: what clients send to set a password, so that the broker never sees it."""
    client_key = _mac(mechanism, salted, b"Client Key")
    stored_key = hashlib.new(mechanism.algorithm, client_key).digest()
    return ScramCredential(salt, stored_key, _mac(mechanism, salted, b"Server Key"), iterations)


Credentials = Callable[[ScramMechanism, str], ScramCredential | None]
"""The credential of a user, if there is one."""

_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"  # ASCII without the comma
_NAME = r"(?:[^=,\x00]|=2C|=3D)+"
_FIRST = re.compile(
    rf"(?P<gs2>(?P<binding>[ny]),(?:a=(?P<authorization>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?:,[A-Za-z]=[^,]+)*)"
)
_LAST = re.compile(
    rf"(?P<bare>c=(?P<channel>[A-Za-z0-9+/=]+),r=(?P<nonce>{_PRINTABLE})(?:,[A-Za-z]=[^,]+)*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class ScramLogin:
    """One login. :meth:`step` takes the client's messages in turn; then :attr:`user` is who it is."""

    is_slow = False
    expires_ms = None

    def __init__(self, mechanism: ScramMechanism, credentials: Credentials, nonce: str, decoy: bytes) -> None:
        """``nonce``: fresh and random, printable without commas. ``decoy``: a secret of this process, of
        which the salts of unknown users are made, so that they stay the same.
        """
        self._mechanism = mechanism
        self._credentials = credentials
        self._nonce = nonce
        self._decoy = decoy
        self._gs2 = b""
        self._signed = ""  # the messages so far, which both sides sign
        self._credential: ScramCredential | None = None
        self._name = ""
        self.user: str | None = None  # Known when the client has proved its password.

    def step(self, message: bytes) -> bytes:
        """The server's answer. Raises :class:`LoginRefused`."""
        if self.user is not None:
            raise LoginRefused("the login has ended already")
        if len(message) > MESSAGE_BYTES_MAX:
            raise LoginRefused(f"a SCRAM message of {len(message)} bytes")
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise LoginRefused("a SCRAM message that is not UTF-8") from None
        return self._finish(text) if self._signed else self._begin(text)

    def _begin(self, text: str) -> bytes:
        first = _FIRST.fullmatch(text)
        if first is None:
            raise LoginRefused("an invalid first SCRAM message")
        self._name = _unescaped(first["user"])
        if first["authorization"] is not None and _unescaped(first["authorization"]) != self._name:
            raise LoginRefused("the client wants to act as another user")
        self._gs2 = first["gs2"].encode()
        self._credential = self._credentials(self._mechanism, self._name)
        salt, iterations = self._salt_and_iterations()
        self._nonce = first["nonce"] + self._nonce
        challenge = f"r={self._nonce},s={base64.b64encode(salt).decode()},i={iterations}"
        self._signed = f"{first['bare']},{challenge}"
        return challenge.encode()

    def _salt_and_iterations(self) -> tuple[bytes, int]:
        if self._credential is not None:
            return self._credential.salt, self._credential.iterations
        return hmac.new(self._decoy, self._name.encode(), "sha256").digest(), ITERATIONS

    def _finish(self, text: str) -> bytes:
        last = _LAST.fullmatch(text)
        if last is None:
            raise LoginRefused("an invalid last SCRAM message")
        # The nonce makes a recorded login useless. The header shows that the first message arrived as sent.
        if not hmac.compare_digest(last["nonce"].encode(), self._nonce.encode()):
            raise LoginRefused("the last SCRAM message belongs to another login")
        if _decoded(last["channel"]) != self._gs2:
            raise LoginRefused("the last SCRAM message has another header than the first")
        signed = f"{self._signed},{last['bare']}".encode()
        credential = self._credential
        proof = _decoded(last["proof"])
        if credential is None or not self._proves(credential, proof, signed):
            shown = self._name[:NAME_SHOWN_MAX]
            raise LoginRefused(f"no user {shown!r} with this password", self._name)
        self.user = self._name
        return b"v=" + base64.b64encode(_mac(self._mechanism, credential.server_key, signed))

    def _proves(self, credential: ScramCredential, proof: bytes, signed: bytes) -> bool:
        signature = _mac(self._mechanism, credential.stored_key, signed)
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._mechanism.algorithm, client_key).digest()
        return hmac.compare_digest(stored_key, credential.stored_key)


def _mac(mechanism: ScramMechanism, key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, mechanism.algorithm).digest()


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise LoginRefused("a SCRAM message with invalid base64") from None
