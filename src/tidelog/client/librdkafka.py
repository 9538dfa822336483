"""The settings of a connection in the words of librdkafka, for programs that use confluent-kafka."""

import time
from typing import Any

from tidelog.client.settings import OAuthSettings, SaslSettings, Security, TlsSettings

# A token is asked for again after this time. The one that is handed over is kept, and replaced, by
# :mod:`tidelog.client.oauth`.
_ASK_AGAIN_S = 60.0


def librdkafka_settings(security: Security) -> dict[str, Any]:
    """Empty for PLAINTEXT. Has passwords: not for a log."""
    if security.tls is None and security.sasl is None:
        return {}
    transport = "PLAINTEXT" if security.tls is None else "SSL"
    found: dict[str, Any] = {"security.protocol": transport if security.sasl is None else f"SASL_{transport}"}
    if security.tls is not None:
        found |= _tls(security.tls)
    if security.sasl is not None:
        found |= _sasl(security.sasl, security.tls)
    return found


def _tls(tls: TlsSettings) -> dict[str, str]:
    named = {
        "ssl.ca.location": tls.trusted_path,
        "ssl.ca.pem": tls.trusted,
        "ssl.certificate.location": tls.chain_path if tls.chain is None else None,
        "ssl.key.location": tls.key_path if tls.chain is None else None,
        "ssl.certificate.pem": tls.chain,
        "ssl.key.pem": tls.key,
        "ssl.key.password": tls.key_password,
        "ssl.endpoint.identification.algorithm": "https" if tls.check_host else "none",
    }
    return {name: value for name, value in named.items() if value is not None}


def _sasl(sasl: SaslSettings, tls: TlsSettings | None) -> dict[str, Any]:
    if sasl.oauth is None:
        return {
            "sasl.mechanism": sasl.mechanism,
            "sasl.username": sasl.username,
            "sasl.password": sasl.password,
        }
    return {"sasl.mechanism": sasl.mechanism, "oauth_cb": _Tokens(sasl.oauth, tls)}


class _Tokens:
    """librdkafka calls it for a token."""

    def __init__(self, oauth: OAuthSettings, tls: TlsSettings | None) -> None:
        self._oauth = oauth
        self._tls = tls

    def __call__(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        from tidelog.client.oauth import token

        text = token(self._oauth, self._tls)
        return text, time.time() + _ASK_AGAIN_S, self._oauth.client_id, dict(self._oauth.extensions)
