"""A small schema registry for tests: the parts of Confluent's REST API that readers and writers use.

Compatibility is not checked. A Protobuf schema is returned serialized if it was registered so, or if the test
gave its descriptor.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

CONTENT = "application/vnd.schemaregistry.v1+json"


class RegistryServer:
    """Schemas and subjects in memory; ``fails`` and ``login`` change what it answers from then on."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.descriptors: dict[int, str] = {}  # serialized, in base64
        self.requests: list[str] = []
        self.fails = 0  # so many of the next requests are answered with 503
        self.login = ""  # "user:password" or "Bearer token", if one is needed
        self.first_id = 1
        outer = self

        class Handler(_Handler):
            registry = outer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        found = next((number for number, one in self.schemas.items() if one == schema), None)
        if found is None:
            found = self.first_id + len(self.schemas)
            self.schemas[found] = schema
        versions = self.subjects.setdefault(subject, [])
        if found not in versions:
            versions.append(found)
        return found

    def add(self, subject: str, schema: Any, kind: str = "AVRO", references: Any = ()) -> int:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        entry: dict[str, Any] = {"schema": text}
        if kind != "AVRO":
            entry["schemaType"] = kind
        if references:
            entry["references"] = list(references)
        return self.register(subject, entry)


class _Handler(BaseHTTPRequestHandler):
    registry: RegistryServer

    def log_message(self, *words: Any) -> None:
        pass

    def do_GET(self) -> None:
        if not self._is_admitted():
            return
        parts = urlsplit(self.path)
        words = [unquote(word) for word in parts.path.strip("/").split("/")]
        if words[:2] == ["schemas", "ids"]:
            self._schema(int(words[2]), parse_qs(parts.query).get("format", [""])[0])
        elif len(words) == 4 and words[0] == "subjects" and words[2] == "versions":
            self._version(words[1], words[3])
        else:
            self._answer(404, {"error_code": 404, "message": "HTTP 404 Not Found"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._is_admitted():
            return
        words = [unquote(word) for word in urlsplit(self.path).path.strip("/").split("/")]
        if body["schema"] == "refused":
            self._answer(422, {"error_code": 42201, "message": "Input schema is an invalid schema"})
        elif words[-1] == "versions":
            self._answer(200, {"id": self.registry.register(words[1], body)})
        else:
            known = self.registry.subjects.get(words[1], [])
            found = next((one for one in known if self.registry.schemas[one] == body), None)
            if found is None:
                self._answer(404, {"error_code": 40403, "message": "Schema not found"})
            else:
                self._answer(200, {"id": found, "subject": words[1], **body})

    def _is_admitted(self) -> bool:
        self.registry.requests.append(f"{self.command} {self.path}")
        if self.registry.fails:
            self.registry.fails -= 1
            self._answer(503, {"error_code": 50003, "message": "Forwarding to the leader failed"})
            return False
        login = self.registry.login
        wanted = (
            login if login.startswith("Bearer ") else f"Basic {base64.b64encode(login.encode()).decode()}"
        )
        if login and self.headers.get("Authorization") != wanted:
            self._answer(401, {"error_code": 401, "message": "Unauthorized"})
            return False
        return True

    def _schema(self, number: int, form: str) -> None:
        schema = self.registry.schemas.get(number)
        if schema is None:
            self._answer(404, {"error_code": 40403, "message": "Schema not found"})
            return
        if form == "serialized" and number in self.registry.descriptors:
            schema = {**schema, "schema": self.registry.descriptors[number]}
        self._answer(200, schema)

    def _version(self, subject: str, version: str) -> None:
        versions = self.registry.subjects.get(subject, [])
        number = len(versions) if version == "latest" else int(version)
        if not 0 < number <= len(versions):
            self._answer(404, {"error_code": 40401, "message": f"Subject '{subject}' not found."})
            return
        found = versions[number - 1]
        self._answer(
            200, {"subject": subject, "version": number, "id": found, **self.registry.schemas[found]}
        )

    def _answer(self, status: int, said: Any) -> None:
        content = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def running_registry() -> Iterator[RegistryServer]:
    server = RegistryServer()
    try:
        yield server
    finally:
        server.stop()
