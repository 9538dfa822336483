"""What clients log in to at a SASL listener: mechanisms, users, keys; from settings, files and the metadata.

Files are looked at with each login, and read again when they have changed. One that cannot be read any more,
or has become invalid, is reported, and what was read before stays in use: a typing error must not lock
everybody out.
"""

import logging
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from tidelog.config import BrokerConfig, Listener
from tidelog.config.sasl_table import OAUTHBEARER, PLAIN
from tidelog.errors import TidelogError
from tidelog.runtime import jwks
from tidelog.runtime.secret_files import read_secret_text
from tidelog.security.oauth import Key, OAuthLogin, TokenRules
from tidelog.security.plain import PlainLogin
from tidelog.security.principal import USER, Principal
from tidelog.security.sasl import LoginRefused, SaslLogin
from tidelog.security.scram import ScramCredential, ScramLogin, ScramMechanism
from tidelog.security.users import Lookup, Users, is_password

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ReadFile(Generic[T]):
    """What a file says, read again when it changes."""

    def __init__(self, path: Path, setting: str, parse: Callable[[str], T]) -> None:
        """Raises ``TidelogError`` if it cannot be used."""
        self._path = path
        self._setting = setting
        self._parse = parse
        self._seen = self._stamp()
        self._content = self._read()

    def content(self) -> T:
        seen = self._stamp()
        if seen != self._seen:
            self._seen = seen
            try:
                self._content = self._read()
                logger.info("%s: read %s again", self._setting, self._path)
            except TidelogError as error:
                logger.error("%s; what was read before stays in use", error.message)
        return self._content

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> T:
        text = read_secret_text(self._path, self._setting)
        try:
            return self._parse(text)
        except ValueError as error:
            raise TidelogError(f"{self._setting}: {self._path}: {error}") from None


class Credentials:
    """Of all users: those of the file come first."""

    def __init__(self, users: ReadFile[Users] | None, of_metadata: Lookup) -> None:
        self._users = users
        self._of_metadata = of_metadata

    def __call__(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        of_file = self._users.content().credential(mechanism, user) if self._users is not None else None
        return of_file or self._of_metadata(mechanism, user)


class ClientLogins:
    """Of one listener."""

    def __init__(
        self,
        config: BrokerConfig,
        listener: Listener,
        directory: Path,
        of_metadata: Lookup,
        now_ms: Callable[[], int],
    ) -> None:
        """``config``: with the values of this listener. ``directory``: where relative paths begin. Raises
        ``TidelogError`` if the listener cannot be served like that.
        """
        self._config = config
        self._now_ms = now_ms
        self._decoy = secrets.token_bytes(32)
        self.mechanisms = tuple(sorted(config.sasl_enabled_mechanisms))
        self.token_bytes_max = config.sasl_server_max_receive_size
        self.max_reauth_ms = config.connections_max_reauth_ms
        users: ReadFile[Users] | None = None
        if config.sasl_users_file is not None:
            salt = secrets.token_bytes(16)
            path = directory / config.sasl_users_file
            users = ReadFile(path, "sasl.users.file", lambda text: Users.parse(text, salt))
        self._credentials = Credentials(users, of_metadata)
        self._keys: ReadFile[dict[str, Key]] | None = None
        self._check_plain(listener)
        if OAUTHBEARER in self.mechanisms:
            if config.sasl_oauthbearer_jwks_file is None:
                raise TidelogError(f"{listener}: OAUTHBEARER needs {jwks.SETTING}")
            path = directory / config.sasl_oauthbearer_jwks_file
            self._keys = ReadFile(path, jwks.SETTING, jwks.keys_of)

    def _check_plain(self, listener: Listener) -> None:
        if PLAIN in self.mechanisms and not listener.protocol.encrypts:
            if not self._config.sasl_plain_unencrypted:
                raise TidelogError(
                    f"{listener}: PLAIN sends passwords as they are. Use SASL_SSL, or accept it with "
                    "sasl.plain.unencrypted=true"
                )
            logger.warning("%s: others on the network can read the passwords that clients send", listener)

    def begin(self, mechanism: str) -> SaslLogin:
        if mechanism == PLAIN:
            return PlainLogin(lambda user, password: is_password(self._credentials, user, password))
        if mechanism == OAUTHBEARER:
            keys = self._keys.content() if self._keys is not None else {}
            return OAuthLogin(keys, self._rules(), self._now_ms() / 1000)
        chosen = ScramMechanism[mechanism.replace("-", "_")]
        return ScramLogin(chosen, self._credentials, secrets.token_hex(16), self._decoy)

    def _rules(self) -> TokenRules:
        config = self._config
        return TokenRules(
            config.sasl_oauthbearer_expected_issuer,
            frozenset(config.sasl_oauthbearer_expected_audience),
            config.sasl_oauthbearer_clock_skew_seconds,
            config.sasl_oauthbearer_sub_claim_name,
        )

    def session_ms(self, exchange: SaslLogin) -> int:
        """How long a login counts; 0: as long as the connection. As in Kafka, tokens only limit the time if
        clients are asked to authenticate again at all.
        """
        if not self.max_reauth_ms:
            return 0
        if exchange.expires_ms is None:
            return self.max_reauth_ms
        return max(min(self.max_reauth_ms, exchange.expires_ms - self._now_ms()), 1)


class ClientOffer:
    """What one connection can log in to."""

    def __init__(
        self, logins: ClientLogins, accepted: Callable[[Principal], None], only: Principal | None
    ) -> None:
        """``accepted`` is called with who it is. ``only``: who it has to be."""
        self._logins = logins
        self._accepted = accepted
        self._only = only
        self.mechanisms = logins.mechanisms
        self.token_bytes_max = logins.token_bytes_max
        self.begin = logins.begin

    def accept(self, exchange: SaslLogin) -> int:
        principal = Principal(USER, exchange.user or "")
        if self._only is not None and principal != self._only:
            raise LoginRefused(f"{principal} cannot go on with the connection of {self._only}")
        session_ms = self._logins.session_ms(exchange)
        self._accepted(principal)
        return session_ms
