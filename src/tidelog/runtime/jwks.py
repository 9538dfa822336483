"""Public keys that verify tokens, from a file in JWKS (RFC 7517). Needs the package ``cryptography``."""

import base64
import binascii
import json
from typing import Any

from tidelog.errors import TidelogError
from tidelog.security.oauth import Key

SETTING = "sasl.oauthbearer.jwks.file"
RSA_BITS_MIN = 2048
KEYS_MAX = 100


def keys_of(text: str) -> dict[str, Key]:
    """By their names. Keys for other purposes and of other kinds are left out. Raises ``TidelogError``."""
    try:
        import cryptography  # noqa: F401 — brokers without OAUTHBEARER do without it
    except ImportError:
        raise TidelogError("OAUTHBEARER needs the package cryptography: pip install cryptography") from None
    try:
        found = json.loads(text)["keys"]
        entries = [entry for entry in found if isinstance(entry, dict)]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TidelogError(f"{SETTING}: it is no JWKS: an object with a list of keys") from None
    if len(entries) > KEYS_MAX:
        raise TidelogError(f"{SETTING}: it has more than {KEYS_MAX} keys")
    keys: dict[str, Key] = {}
    for number, entry in enumerate(entries):
        if entry.get("use", "sig") == "sig":
            key = _key(entry)
            if key is not None:
                keys[str(entry.get("kid", f"key {number}"))] = key
    if not keys:
        raise TidelogError(f"{SETTING}: it has no RSA or EC key for signatures")
    return keys


def _key(entry: dict[str, Any]) -> Key | None:
    try:
        if entry.get("kty") == "RSA":
            return _RsaKey(entry)
        if entry.get("kty") == "EC" and entry.get("crv") in _CURVES:
            return _EcKey(entry)
    except (KeyError, ValueError, binascii.Error) as error:
        raise TidelogError(f"{SETTING}: the key {str(entry.get('kid'))!r} is invalid: {error}") from None
    return None


def _number(entry: dict[str, Any], name: str) -> int:
    text = str(entry[name])
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def _allowed(entry: dict[str, Any], possible: frozenset[str]) -> frozenset[str]:
    """What a key says about its algorithm counts."""
    given = entry.get("alg")
    return possible if given is None else possible & {str(given)}


def _hash(algorithm: str) -> Any:
    from cryptography.hazmat.primitives import hashes

    by_size: dict[str, Any] = {"256": hashes.SHA256, "384": hashes.SHA384, "512": hashes.SHA512}
    return by_size[algorithm[2:]]()


class _RsaKey:
    def __init__(self, entry: dict[str, Any]) -> None:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

        self._key = RSAPublicNumbers(_number(entry, "e"), _number(entry, "n")).public_key()
        if self._key.key_size < RSA_BITS_MIN:
            raise ValueError(f"it has {self._key.key_size} bits; at least {RSA_BITS_MIN} are needed")
        possible = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
        self.algorithms = _allowed(entry, possible)

    def verifies(self, algorithm: str, signed: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, PKCS1v15

        digest = _hash(algorithm)
        padding = PSS(MGF1(digest), digest.digest_size) if algorithm.startswith("PS") else PKCS1v15()
        try:
            self._key.verify(signature, signed, padding, digest)
        except InvalidSignature:
            return False
        return True


_CURVES = {"P-256": ("SECP256R1", "ES256"), "P-384": ("SECP384R1", "ES384"), "P-521": ("SECP521R1", "ES512")}


class _EcKey:
    def __init__(self, entry: dict[str, Any]) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        curve, algorithm = _CURVES[entry["crv"]]
        numbers = ec.EllipticCurvePublicNumbers(
            _number(entry, "x"), _number(entry, "y"), getattr(ec, curve)()
        )
        self._key = numbers.public_key()
        self._size = (self._key.key_size + 7) // 8
        self.algorithms = _allowed(entry, frozenset({algorithm}))

    def verifies(self, algorithm: str, signed: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        if len(signature) != 2 * self._size:
            return False
        r, s = (int.from_bytes(part) for part in (signature[: self._size], signature[self._size :]))
        try:
            self._key.verify(utils.encode_dss_signature(r, s), signed, ec.ECDSA(_hash(algorithm)))
        except (InvalidSignature, ValueError):
            return False
        return True
