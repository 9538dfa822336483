"""Schemas of a registry, by the number that a framed value begins with: a zero byte and four bytes of it."""

import base64
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from tidelog.page.views.avro import Names, NoAvro, value_of

FRAME_BYTES: Final = 5
TIMEOUT_S = 3.0
RESPONSE_BYTES_MAX = 1 << 20
REFERENCES_MAX = 50
KNOWN_MAX = 2000
# A number that the registry does not know is asked for again after this time. Any producer can write it.
FORGET_FAILURE_S = 30.0
FAILURES_IN_A_ROW_MAX = 5  # Then nothing is asked for a while: a page of messages must not take minutes.

AVRO, JSON = "avro", "json"


class Schema(NamedTuple):
    kind: str  # avro, json, or another one that is not decoded
    names: Names | None = None  # of Avro


class Registry:
    """Thread-safe: the worst that two threads do is to ask twice."""

    def __init__(self, url: str) -> None:
        """``url``: may have a user and a password."""
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        self._url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._headers = {"accept": "application/json"}
        if parts.username is not None:
            secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["authorization"] = f"Basic {base64.b64encode(secret).decode()}"
        self._known: dict[int, Schema] = {}
        self._failed: dict[int, float] = {}  # when a number may be asked for again
        self._failures = 0  # in a row
        self._lock = threading.Lock()

    def plain(self, data: bytes | None) -> tuple[str, bytes] | None:
        """(form, JSON) of a framed value; None: it is none, or cannot be decoded."""
        if data is None or len(data) < FRAME_BYTES or data[0] != 0:
            return None
        schema = self._schema(int.from_bytes(data[1:FRAME_BYTES], "big"))
        if schema is None:
            return None
        body = data[FRAME_BYTES:]
        if schema.kind == JSON:
            return JSON, body
        if schema.names is None:
            return None
        try:
            found = value_of(body, schema.names)
        except (NoAvro, RecursionError):
            return None
        return AVRO, json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")

    def _schema(self, number: int) -> Schema | None:
        found = self._known.get(number)
        if found is not None:
            return found
        now_s = time.monotonic()
        if self._failed.get(number, 0.0) > now_s or self._failed.get(-1, 0.0) > now_s:
            return None
        try:
            found = self._ask(number)
        except (OSError, ValueError, KeyError, TypeError):
            self._note_failure(number, now_s)
            return None
        with self._lock:
            self._failures = 0
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[number] = found
        return found

    def _note_failure(self, number: int, now_s: float) -> None:
        with self._lock:
            self._failures += 1
            if len(self._failed) >= KNOWN_MAX:
                self._failed.clear()
            everything = self._failures % FAILURES_IN_A_ROW_MAX == 0
            self._failed[-1 if everything else number] = now_s + FORGET_FAILURE_S

    def _ask(self, number: int) -> Schema:
        response = self._get(f"/schemas/ids/{number}")
        kind = str(response.get("schemaType", "AVRO")).lower()
        if kind != AVRO:
            return Schema(kind)
        referenced = [json.loads(each) for each in self._referenced(response, set())]
        return Schema(AVRO, Names([*referenced, json.loads(response["schema"])]))

    def _referenced(self, response: dict[str, Any], seen: set[tuple[str, int]]) -> Iterator[str]:
        """Schemas that one refers to, those first to which they refer themselves."""
        for each in response.get("references") or ():
            place = (str(each["subject"]), int(each["version"]))
            if place in seen:
                continue
            seen.add(place)
            if len(seen) > REFERENCES_MAX:
                raise ValueError("too many references")
            found = self._get(f"/subjects/{quote(place[0], safe='')}/versions/{place[1]}")
            yield from self._referenced(found, seen)
            yield str(found["schema"])

    def _get(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(f"{self._url}{path}", headers=self._headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            body = response.read(RESPONSE_BYTES_MAX + 1)
        if len(body) > RESPONSE_BYTES_MAX:
            raise ValueError("the answer is too long")
        found = json.loads(body)
        if not isinstance(found, dict):
            raise ValueError("no object")
        return found
