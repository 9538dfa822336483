"""The secret that the nodes of a cluster share, and by which they recognise each other.

It is text of at least :data:`LENGTH_MIN` characters, one secret per line. A node logs in with the first, by
SCRAM-SHA-256, and accepts all of them: so it can be changed while the cluster runs. A node's user name says
its id and, by the beginning of a hash, which secret it uses.

Salt and number of iterations follow from the secret, and both ends know them. Its keys are therefore worked
out once per process, and a false server cannot have a node work out others. A secret is drawn at random, so
that neither has to slow down who guesses.
"""

import hashlib
from typing import NamedTuple

from tidelog.security.sasl import LoginRefused
from tidelog.security.scram import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    credential_of_salted_password,
)

LENGTH_MIN = 32
LENGTH_MAX = 1024
SECRETS_MAX = 10
MECHANISM = ScramMechanism.SCRAM_SHA_256

_USER = "broker-"
_DIGITS_MAX = 10


class _Secret(NamedTuple):
    fingerprint: str
    salt: bytes
    salted: bytes
    credential: ScramCredential

    def __repr__(self) -> str:
        return f"_Secret({self.fingerprint})"


class ClusterSecret:
    def __init__(self, secrets: list[_Secret]) -> None:
        self._own = secrets[0]
        self._accepted = {secret.fingerprint: secret for secret in secrets}

    def __repr__(self) -> str:
        return f"ClusterSecret({', '.join(self._accepted)})"

    @classmethod
    def parse(cls, text: str) -> "ClusterSecret":
        """Raises ValueError with the reason, which does not show the text."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if not lines:
            raise ValueError("it is empty")
        if len(lines) > SECRETS_MAX:
            raise ValueError(f"it has more than {SECRETS_MAX} lines")
        for line in lines:
            if not LENGTH_MIN <= len(line) <= LENGTH_MAX:
                raise ValueError(
                    f"a secret has {LENGTH_MIN} to {LENGTH_MAX} characters, this one {len(line)}"
                )
        return cls([_secret(line.encode()) for line in lines])

    # --- the end that logs in -------------------------------------------------------------------------------

    def user_of(self, node: int) -> str:
        return f"{_USER}{node}/{self._own.fingerprint}"

    def salted(self, salt: bytes, iterations: int) -> bytes:
        if (salt, iterations) != (self._own.salt, ITERATIONS_MIN):
            raise LoginRefused("the other node has another cluster secret")
        return self._own.salted

    # --- the other end --------------------------------------------------------------------------------------

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        if mechanism is not MECHANISM or self.node_of(user) is None:
            return None
        secret = self._accepted.get(user.partition("/")[2])
        return None if secret is None else secret.credential

    @staticmethod
    def node_of(user: str) -> int | None:
        """The node that a user name says."""
        number = user.partition("/")[0].removeprefix(_USER)
        if not user.startswith(_USER) or not (number.isascii() and number.isdigit()):
            return None
        return int(number) if len(number) <= _DIGITS_MAX else None


def _secret(secret: bytes) -> _Secret:
    fingerprint = hashlib.sha256(b"tidelog cluster secret: name" + secret).hexdigest()[:8]
    salt = hashlib.sha256(b"tidelog cluster secret: salt" + secret).digest()[:16]
    salted = hashlib.pbkdf2_hmac(MECHANISM.algorithm, secret, salt, ITERATIONS_MIN)
    credential = credential_of_salted_password(MECHANISM, salted, salt, ITERATIONS_MIN)
    return _Secret(fingerprint, salt, salted, credential)
