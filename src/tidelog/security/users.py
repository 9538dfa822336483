"""Users of a file, and passwords that are checked against what a broker keeps of them.

The file is for users that have to exist before the metadata log does, such as the first administrator. A line
is ``name:password`` or ``name:`` and a hashed password, as :func:`hashed` writes it. Lines that begin with #
are comments. The users of the metadata log have SCRAM credentials only; PLAIN is checked against those, too.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Iterator

from tidelog.security.scram import (
    ITERATIONS,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    credential_of_password,
)

USERS_MAX = 10_000
_HASHED = re.compile(r"(SCRAM-SHA-(?:256|512))\$(\d{4,5}):([\w+/=]+)\$([\w+/=]+):([\w+/=]+)", re.ASCII)

Lookup = Callable[[ScramMechanism, str], ScramCredential | None]


class Users:
    """Of one file, as it was read."""

    def __init__(
        self,
        passwords: dict[str, str],
        credentials: dict[tuple[ScramMechanism, str], ScramCredential],
        salt: bytes = b"",
    ) -> None:
        """``salt``: random, for the credentials that passwords in plain text give."""
        self._passwords = passwords
        self._credentials = credentials
        self._salt = salt

    def __repr__(self) -> str:
        return f"Users({sorted(self.names)})"

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._passwords) | {user for _, user in self._credentials}

    @classmethod
    def parse(cls, text: str, salt: bytes) -> "Users":
        """Raises ValueError, which names a line but does not show it."""
        passwords: dict[str, str] = {}
        credentials: dict[tuple[ScramMechanism, str], ScramCredential] = {}
        for number, line in _lines(text):
            name, colon, rest = line.partition(":")
            if not (name and colon and rest):
                raise ValueError(f"line {number} is not name:password")
            if rest.startswith("SCRAM-SHA-"):
                mechanism, credential = _hashed(rest, number)
                if (mechanism, name) in credentials:
                    raise ValueError(f"line {number} names a user for the second time")
                credentials[mechanism, name] = credential
            elif name in passwords:
                raise ValueError(f"line {number} names a user for the second time")
            else:
                passwords[name] = rest
        if len(passwords) + len(credentials) > USERS_MAX:
            raise ValueError(f"it has more than {USERS_MAX} users")
        return cls(passwords, credentials, salt)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        known = self._credentials.get((mechanism, user))
        password = self._passwords.get(user)
        if known is None and password is not None:
            salt = hmac.digest(self._salt, user.encode(), "sha256")
            known = credential_of_password(mechanism, password, salt, ITERATIONS)
            self._credentials[mechanism, user] = known
        return known


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line


def hashed(mechanism: ScramMechanism, credential: ScramCredential) -> str:
    """What a line has after the name, in PostgreSQL's notation."""
    salt, stored, server = (
        base64.b64encode(data).decode()
        for data in (credential.salt, credential.stored_key, credential.server_key)
    )
    return f"{mechanism.sasl_name}${credential.iterations}:{salt}${stored}:{server}"


def _hashed(text: str, line: int) -> tuple[ScramMechanism, ScramCredential]:
    match = _HASHED.fullmatch(text)
    mechanism = ScramMechanism.of(match[1]) if match else None
    if match is None or mechanism is None:
        raise ValueError(f"line {line} has an invalid SCRAM credential")
    iterations = int(match[2])
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ValueError(
            f"line {line} has {iterations} iterations; {ITERATIONS_MIN} to {ITERATIONS_MAX} are allowed"
        )
    try:
        salt, stored, server = (base64.b64decode(part, validate=True) for part in match.groups()[2:])
    except binascii.Error:
        raise ValueError(f"line {line} has an invalid SCRAM credential") from None
    size = 32 if mechanism is ScramMechanism.SCRAM_SHA_256 else 64
    if len(stored) != size or len(server) != size:
        raise ValueError(f"line {line} has a SCRAM credential with keys of another size than {size} bytes")
    return mechanism, ScramCredential(salt, stored, server, iterations)


def is_password(credentials: Lookup, user: str, password: str) -> bool:
    """Takes some milliseconds, for users that do not exist as well."""
    for mechanism in ScramMechanism:
        known = credentials(mechanism, user)
        if known is not None:
            given = credential_of_password(mechanism, password, known.salt, known.iterations)
            return hmac.compare_digest(given.stored_key, known.stored_key)
    credential_of_password(ScramMechanism.SCRAM_SHA_256, password, b"nobody", ITERATIONS)
    return False
