"""A client of a schema registry: Confluent's REST API, also served by Karapace and Redpanda.

Owns how the registry is asked: authentication, TLS, retries, and a bounded cache for each process. A schema
id that the registry does not know is None, and is asked for again after a while. A registry that does not
answer is an error: it says nothing about the record.
"""

import base64
import json
import ssl
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from tidelog.spark.options import OptionError
from tidelog.spark.schemas.errors import RegistryUnavailable

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"

# As in Confluent's Python client.
OPTIONS = (
    "basic.auth.user.info",
    "bearer.auth.token",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "request.timeout.ms",
    "max.retries",
)

_CACHED_SCHEMAS_MAX = 1000
_UNKNOWN_SECONDS = 30.0  # an id that was unknown may be registered a moment later
_RESPONSE_BYTES_MAX = 16 << 20
_REFERENCE_DEPTH_MAX = 20
_BACKOFF_SECONDS = 0.2
_CONTENT = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND = 404
_TRY_AGAIN = (408, 429)


@dataclass(frozen=True, slots=True)
class Reference:
    """Another schema that this one uses under ``name``."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema of the registry."""

    id: int
    kind: str
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Where the registry is and how to authenticate. Sent to Spark's workers with the query."""

    url: str  # several, separated by commas: the next one is asked if one fails
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # may hold a password

    @classmethod
    def of(cls, url: str, options: Mapping[str, str] | None = None) -> "RegistrySettings":
        for name in options or {}:
            if name not in OPTIONS:
                raise OptionError(
                    f"There is no registry option {name!r}; there are {', '.join(sorted(OPTIONS))}."
                )
        found = cls(url, tuple(sorted((options or {}).items())))
        found.urls()
        return found

    def urls(self) -> list[str]:
        urls = [one.strip().rstrip("/") for one in self.url.split(",") if one.strip()]
        if not urls or any(urlsplit(one).scheme not in ("http", "https") for one in urls):
            raise OptionError(
                f"The registry is {_without_password(self.url)!r}; allowed: URLs such as http://localhost:8081."
            )
        return urls

    def number(self, name: str, default: int) -> int:
        value = dict(self.options).get(name, str(default))
        if not value.isdecimal():
            raise OptionError(f"The registry option {name} is {value!r}; allowed: a whole number.")
        return int(value)


class Registry:
    """One registry, as seen by this process."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._urls = settings.urls()
        self._options = dict(settings.options)
        self._timeout_s = settings.number("request.timeout.ms", 10_000) / 1000
        self._retries = settings.number("max.retries", 3)
        self._opener = _opener(self._options)
        self._known: OrderedDict[tuple[int, str], Registered] = OrderedDict()
        self._unknown: OrderedDict[int, float] = (
            OrderedDict()
        )  # id to the time at which it is asked for again

    def by_id(self, schema_id: int, *, form: str = "") -> Registered | None:
        """None: the registry does not know the id. ``form`` is Confluent's ``format`` of the answer."""
        if (found := self._known.get((schema_id, form))) is not None:
            self._known.move_to_end((schema_id, form))
            return found
        if time.monotonic() < self._unknown.get(schema_id, 0.0):
            return None
        said = self._get(f"/schemas/ids/{schema_id}" + (f"?format={form}" if form else ""))
        if said is None:
            self._unknown[schema_id] = time.monotonic() + _UNKNOWN_SECONDS
            _shorten(self._unknown)
            return None
        found = _registered(schema_id, said)
        self._known[schema_id, form] = found
        _shorten(self._known)
        return found

    def latest(self, subject: str) -> Registered:
        """The newest version of a subject."""
        return self._version(subject, "latest")

    def _version(self, subject: str, version: int | str) -> Registered:
        said = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")
        if said is None:
            which = "no schema" if version == "latest" else f"no version {version}"
            raise OptionError(
                f"The registry has {which} of the subject {subject!r}; register one, or name another subject."
            )
        return _registered(_number(said, "id"), said)

    def referenced(self, schema: Registered) -> list[tuple[str, Registered]]:
        """The schemas it uses, each with its name, every one after those that it uses itself."""
        found: dict[str, Registered] = {}
        self._collect(schema, found, 0)
        return list(found.items())

    def _collect(self, schema: Registered, found: dict[str, Registered], depth: int) -> None:
        if depth > _REFERENCE_DEPTH_MAX:
            raise OptionError(f"The references of schema {schema.id} form a cycle or a very long chain.")
        for reference in schema.references:
            if reference.name not in found:
                other = self._version(reference.subject, reference.version)
                self._collect(other, found, depth + 1)
                found[reference.name] = other

    def register(self, subject: str, text: str, kind: str, references: tuple[Reference, ...] = ()) -> int:
        """The id of the schema, registered as the subject's newest version unless it is one already."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        return _number(self._ask("POST", path, _body(text, kind, references)), "id")

    def lookup(
        self, subject: str, text: str, kind: str, references: tuple[Reference, ...] = ()
    ) -> int | None:
        """The id of the schema if it is a version of the subject. Registers nothing."""
        said = self._ask("POST", f"/subjects/{quote(subject, safe='')}", _body(text, kind, references))
        return None if said is None else _number(said, "id")

    # -- requests ----------------------------------------------------------------------

    def _get(self, path: str) -> Any:
        return self._ask("GET", path, None)

    def _ask(self, method: str, path: str, body: bytes | None) -> Any:
        """None: there is no such thing. Asked again, at every address, before it counts as failed."""
        reason = ""
        for attempt in range(self._retries + 1):
            if attempt:
                time.sleep(_BACKOFF_SECONDS * 2 ** min(attempt - 1, 5))
            for url in self._urls:
                try:
                    return self._ask_one(url, method, path, body)
                except _Failed as failed:
                    reason = str(failed)
        where = ", ".join(map(_without_password, self._urls))
        raise RegistryUnavailable(
            f"The schema registry at {where} does not answer ({reason}); start the run again when it does."
        )

    def _ask_one(self, url: str, method: str, path: str, body: bytes | None) -> Any:
        parts = urlsplit(url)
        headers = {
            "Accept": f"{_CONTENT}, application/json",
            **_authorization(parts.username, parts, self._options),
        }
        if body is not None:
            headers["Content-Type"] = _CONTENT
        place = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) + path
        try:
            with self._opener.open(
                Request(place, data=body, headers=headers, method=method), timeout=self._timeout_s
            ) as response:
                text = response.read(_RESPONSE_BYTES_MAX + 1)
        except HTTPError as error:
            _refusal(error, url)
            return None
        except (URLError, OSError, ValueError) as error:
            raise _Failed(str(getattr(error, "reason", error)) or type(error).__name__) from None
        try:
            return json.loads(text)
        except ValueError:
            raise _Failed("its answer is not JSON") from None


class _Failed(Exception):
    """One attempt; another may succeed."""


def _refusal(error: HTTPError, url: str) -> None:
    """Returns if there is no such thing."""
    try:
        said = json.loads(error.read(_RESPONSE_BYTES_MAX))
        reason, code = str(said["message"]), int(said["error_code"])
    except (OSError, ValueError, KeyError, TypeError):
        reason, code = f"HTTP {error.code} {error.reason}", 0
    if error.code >= 500 or error.code in _TRY_AGAIN:
        raise _Failed(reason)
    if error.code == _NOT_FOUND:
        if code // 100 != _NOT_FOUND:
            # Not the answer of a registry: a wrong address must not make every record undecodable.
            raise RegistryUnavailable(
                f"{_without_password(url)} is not the address of a schema registry: {reason}."
            )
        return
    if error.code in (401, 403):
        raise RegistryUnavailable(
            f"The schema registry at {_without_password(url)} refuses access ({reason}); "
            "set basic.auth.user.info or bearer.auth.token."
        )
    raise OptionError(f"The schema registry refuses the schema: {' '.join(reason.split())}.")


class _SameHost(HTTPRedirectHandler):
    """A redirection to another host would send it the password."""

    def redirect_request(self, req: Request, *rest: Any) -> Request | None:
        target = rest[-1]
        if urlsplit(target).netloc != urlsplit(req.full_url).netloc:
            raise _Failed(f"it redirects to {urlsplit(target).netloc}")
        return super().redirect_request(req, *rest)


def _opener(options: Mapping[str, str]) -> OpenerDirector:
    try:
        context = ssl.create_default_context(cafile=options.get("ssl.ca.location"))
        if certificate := options.get("ssl.certificate.location"):
            context.load_cert_chain(
                certificate, options.get("ssl.key.location"), options.get("ssl.key.password")
            )
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or str(error)
        raise OptionError(f"The certificates of the schema registry cannot be read: {reason}.") from None
    return build_opener(HTTPSHandler(context=context), _SameHost())


def _authorization(user: str | None, parts: Any, options: Mapping[str, str]) -> dict[str, str]:
    if token := options.get("bearer.auth.token"):
        return {"Authorization": f"Bearer {token}"}
    login = options.get("basic.auth.user.info")
    if login is None and user is not None:
        login = f"{unquote(user)}:{unquote(parts.password or '')}"
    if login is None:
        return {}
    return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}


def _without_password(url: str) -> str:
    return ",".join(
        urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        for parts in map(urlsplit, url.split(","))
    )


def _body(text: str, kind: str, references: tuple[Reference, ...]) -> bytes:
    said: dict[str, Any] = {"schema": text}
    if kind != AVRO:  # the default, which old registries do not know by name
        said["schemaType"] = kind
    if references:
        said["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version} for one in references
        ]
    return json.dumps(said).encode()


def _registered(schema_id: int, said: Any) -> Registered:
    try:
        references = tuple(
            Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
            for one in said.get("references") or ()
        )
        return Registered(schema_id, str(said.get("schemaType") or AVRO), str(said["schema"]), references)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise RegistryUnavailable("The answer of the schema registry holds no schema.") from None


def _number(said: Any, name: str) -> int:
    try:
        return int(said[name])
    except (KeyError, TypeError, ValueError):
        raise RegistryUnavailable(f"The answer of the schema registry has no {name}.") from None


def _shorten(cache: OrderedDict[Any, Any]) -> None:
    while len(cache) > _CACHED_SCHEMAS_MAX:
        cache.popitem(last=False)


@lru_cache(maxsize=8)
def registry(settings: RegistrySettings) -> Registry:
    """The client of this process for these settings, with its cache."""
    return Registry(settings)
