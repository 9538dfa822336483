"""A catalog of Iceberg behind its REST protocol, as services have them: PyIceberg's SQL catalog over HTTP.

Owns the requests that an archive makes. PyIceberg's own REST client talks to it.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote

from pyiceberg.catalog.rest import CreateTableRequest, TableResponse
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

_STATUS = {
    NoSuchNamespaceError: 404,
    NoSuchTableError: 404,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    CommitFailedException: 409,
}


class RestCatalog:
    def __init__(self, url: str, catalog: SqlCatalog) -> None:
        self.url, self.catalog = url, catalog
        # Called when a commit was made, before it is answered; may raise.
        self.after_commit: Callable[[], None] = lambda: None
        self.commits = 0

    def answer(self, method: str, path: str, body: bytes) -> str:
        words = [unquote(one) for one in path.partition("?")[0].strip("/").split("/")][1:]
        match method, words:
            case "GET", ["config"]:
                return json.dumps({"defaults": {}, "overrides": {}})
            case "POST", ["namespaces"]:
                self.catalog.create_namespace(tuple(json.loads(body)["namespace"]))
                return json.dumps({"namespace": json.loads(body)["namespace"], "properties": {}})
            case (("GET" | "HEAD"), ["namespaces", name]):
                self.catalog.load_namespace_properties(_names(name))
                return json.dumps({"namespace": _names(name), "properties": {}})
            case "POST", ["namespaces", name, "tables"]:
                asked = {"location": None, "partition-spec": None, "write-order": None} | json.loads(body)
                return self._create(_names(name), CreateTableRequest.model_validate(asked))
            case (("GET" | "HEAD"), ["namespaces", name, "tables", table]):
                return _told(self.catalog.load_table((*_names(name), table)))
            case "POST", ["namespaces", name, "tables", table]:
                return self._commit((*_names(name), table), CommitTableRequest.model_validate_json(body))
        raise ValueError(f"{method} {path} is not served")

    def _create(self, namespace: tuple[str, ...], asked: CreateTableRequest) -> str:
        made = self.catalog.create_table(
            (*namespace, asked.name),
            asked.table_schema,
            asked.location,
            asked.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            asked.write_order or UNSORTED_SORT_ORDER,
            asked.properties,
        )
        return _told(made)

    def _commit(self, identifier: tuple[str, ...], asked: CommitTableRequest) -> str:
        made = self.catalog.commit_table(
            self.catalog.load_table(identifier), asked.requirements, asked.updates
        )
        self.commits += 1
        self.after_commit()
        return made.model_dump_json(by_alias=True)


def _names(name: str) -> tuple[str, ...]:
    return tuple(name.split("\x1f"))


def _told(table: Table) -> str:
    told = TableResponse.model_validate(
        {"metadata-location": table.metadata_location, "metadata": table.metadata, "config": {}}
    )
    return told.model_dump_json(by_alias=True)


@contextmanager
def rest_catalog(warehouse: str) -> Iterator[RestCatalog]:
    inner = SqlCatalog(
        "inner", uri=f"sqlite:///{warehouse}/rest.db", warehouse=f"file://{warehouse}/warehouse"
    )
    served: list[RestCatalog] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, said = 200, served[0].answer(self.command, self.path, body)
            except Exception as failure:  # as a service does; the client tells it
                status = _STATUS.get(type(failure), 500)
                error = {"message": str(failure), "type": type(failure).__name__, "code": status}
                said = json.dumps({"error": error})
            content = b"" if self.command == "HEAD" else said.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_HEAD = do_GET  # noqa: N815

        def log_message(self, *words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.append(RestCatalog(f"http://127.0.0.1:{server.server_port}", inner))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield served[0]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        inner.close()
