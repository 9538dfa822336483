"""The client's side of SCRAM (RFC 5802). The nonce and the salted password come in as arguments."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable

from tidelog.security.sasl import LoginRefused
from tidelog.security.scram import ScramMechanism

SaltedPassword = Callable[[bytes, int], bytes]
"""The password, salted and hashed: by salt and number of iterations. May raise :class:`LoginRefused`."""


class ScramClient:
    """One login: ``first``, then ``last`` with the challenge, then ``finish`` with the last message."""

    def __init__(
        self, mechanism: ScramMechanism, user: str, salted_password: SaltedPassword, nonce: str
    ) -> None:
        self._mechanism = mechanism
        self._salted_password = salted_password
        self._nonce = nonce
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def last(self, challenge: bytes) -> bytes:
        try:
            text = challenge.decode()
            fields = dict(part.split("=", 1) for part in text.split(","))
            nonce, iterations = fields["r"], int(fields["i"])
            salt = base64.b64decode(fields["s"])
        except (ValueError, KeyError, binascii.Error):
            raise LoginRefused("an invalid SCRAM challenge") from None
        # The server has to add something of its own: otherwise an old answer could be played back to us.
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise LoginRefused("the SCRAM challenge does not belong to this login")
        algorithm = self._mechanism.algorithm
        salted = self._salted_password(salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", algorithm)
        bare_last = f"c=biws,r={nonce}"
        signed = f"{self._bare},{text},{bare_last}".encode()
        stored_key = hashlib.new(algorithm, client_key).digest()
        proof = hmac.digest(stored_key, signed, algorithm)
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
        mixed = bytes(mine ^ theirs for mine, theirs in zip(client_key, proof, strict=True))
        return f"{bare_last},p={base64.b64encode(mixed).decode()}".encode()

    def finish(self, final: bytes) -> None:
        """A server that does not know the password is not trusted."""
        expected = b"v=" + base64.b64encode(self._signature)
        if not self._signature or not hmac.compare_digest(final.split(b",")[0], expected):
            raise LoginRefused("the server could not prove that it knows the password")
