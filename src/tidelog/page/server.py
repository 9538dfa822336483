"""The HTTP side: routes, server-sent events, and the guard in front of all of them."""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidelog.client.errors import ClientError
from tidelog.client.settings import OPEN, Security
from tidelog.page import assets, guard
from tidelog.page.asking import connecting
from tidelog.page.asking.link import Address
from tidelog.page.asking.schemas import Registry
from tidelog.page.changes.doing import ChangeRefused, Changes, Unclear
from tidelog.page.events import Hub
from tidelog.page.groups_watch import GroupsWatch
from tidelog.page.playground import Playground, PlaygroundFailed
from tidelog.page.posted import Unusable, read_object
from tidelog.page.views import messages, topic, what_if
from tidelog.page.views.payload import Plain, without_schema
from tidelog.page.watcher import Watcher

VIEWS = ("/", "/topics", "/topic/{name}", "/groups", "/group", "/timeline", "/what-if", "/playground")
"""Paths that a person sees in the address bar: all of them are the same document."""

SHUTDOWN_S = 1
BACKLOG = 128


PLAYGROUND_BYTES_MAX = 1 << 12


class Access(NamedTuple):
    """What may be changed by a browser with the token of the printed address, and where schemas are."""

    token: str = ""  # empty: nothing
    playground: tuple[str, ...] = ()  # the command that starts it; empty: there is none
    demo: bool = False  # its loads start with the page
    admin: bool = False  # topics, groups and brokers
    schema_registry: str = ""  # URL of the registry for values with schemas; empty: there is none


READ_ONLY = Access()


def access(
    playground: Sequence[str] = (), *, demo: bool = False, admin: bool = False, schema_registry: str = ""
) -> Access:
    """With a new token, if it is for anything."""
    token = secrets.token_urlsafe(16) if playground or admin else ""
    return Access(token, tuple(playground), demo, admin, schema_registry)


class Page:
    def __init__(self, bootstrap: Iterable[Address], may: Access = READ_ONLY) -> None:
        self.watcher = Watcher(bootstrap)
        self.hub = Hub(self._everything)
        self._groups_watch = GroupsWatch(self.watcher)
        self._may = may
        self._playground = Playground(may.playground, self.hub.send) if may.playground else None
        self._changes = Changes(self.watcher) if may.admin else None
        self._plain: Plain = Registry(may.schema_registry).plain if may.schema_registry else without_schema
        self._assets = assets.load()

    def _everything(self) -> dict[str, Any]:
        return self.watcher.everything() | {
            "may": {"playground": self._playground is not None, "admin": self._changes is not None},
            "playground": self._playground.everything() if self._playground is not None else {},
        }

    def app(self) -> ASGIApp:
        routes = [Route(path, self._document) for path in VIEWS]
        routes += [
            Route("/static/{path:path}", self._static),
            Route("/events", self._events),
            Route("/health", self._health),
            Route("/api/topic", self._answering(self._topic)),
            Route("/api/messages", self._answering(self._messages)),
            Route("/api/groups", self._answering(self._groups)),
            Route("/api/what-if", self._answering(self._what_if)),
        ]
        if self._playground is not None:
            routes.append(Route("/api/playground", self._answering(self._play), methods=["POST"]))
        if self._changes is not None:
            routes.append(Route("/api/change/preview", self._answering(self._preview), methods=["POST"]))
            routes.append(Route("/api/change/apply", self._answering(self._apply), methods=["POST"]))
        app = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers={404: _no_such_view})
        return Guarded(app, self._may.token)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        self.watcher.subscribe(self.hub.send)
        self.watcher.start()
        self.watcher.spawn(self._groups_watch.run())
        if self._may.demo:
            self.watcher.spawn(self._begin_demo())
        try:
            yield
        finally:
            if self._playground is not None:
                await self._playground.stop()
            await self.watcher.stop()

    async def _begin_demo(self) -> None:
        """Its loads run before a browser is open."""
        if self._playground is not None:
            with contextlib.suppress(PlaygroundFailed):  # The view says what there is.
                await self._playground.act({"action": "start", "load": "all"})

    # -- documents -------------------------------------------------------------------------

    async def _document(self, _request: Request) -> Response:
        return self._asset("index.html")

    async def _static(self, request: Request) -> Response:
        return self._asset(request.path_params["path"])

    def _asset(self, path: str) -> Response:
        found = self._assets.get(path)
        if found is None:
            return PlainTextResponse("There is no such file.\n", 404)
        return Response(found.body, media_type=found.content_type, headers={"cache-control": "no-cache"})

    async def _events(self, _request: Request) -> Response:
        if self.hub.is_full:
            return PlainTextResponse("Too many browsers have this page open.\n", 503)
        return StreamingResponse(self.hub.stream(), media_type="text/event-stream")

    async def _health(self, _request: Request) -> Response:
        """Whether the page sees the cluster."""
        if self.watcher.facts.cluster is None:
            return PlainTextResponse("no broker has answered yet\n", 503)
        return PlainTextResponse("ok\n")

    # -- views -----------------------------------------------------------------------------

    def _answering(
        self, view: Callable[[Request], Awaitable[Any]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """JSON, or one sentence that says what is wrong."""

        async def respond(request: Request) -> Response:
            try:
                return JSONResponse(await view(request))
            except (Unusable, PlaygroundFailed, Unclear, ChangeRefused) as error:
                return JSONResponse({"error": str(error)}, 400)
            except (ClientError, OSError) as error:
                return JSONResponse({"error": f"{str(error).rstrip('.')}."}, 503)

        return respond

    async def _topic(self, request: Request) -> Any:
        name = self._known_topic(request)
        facts, watcher = self.watcher.facts, self.watcher
        found = topic.positions(facts, name) | {"history": watcher.histories.of(name)}
        if request.query_params.get("more") != "1":
            return found
        settings, begins, producers = await asyncio.gather(
            watcher.for_view(topic.settings_of, facts, name),
            watcher.for_view(topic.begins, facts, name),
            watcher.for_view(topic.producers, facts, name),
        )
        return found | {"settings": settings, "begins": begins, "producers": producers}

    def _known_topic(self, request: Request) -> str:
        name = request.query_params.get("name", "")
        cluster = self.watcher.facts.cluster
        if cluster is None or name not in cluster.topics:
            raise Unusable("There is no such topic.")
        return name

    async def _messages(self, request: Request) -> Any:
        query = _query(self._known_topic(request), request)
        brokers = self.watcher.facts.cluster
        partitions = brokers.topics[query.topic].partitions if brokers is not None else ()
        if query.partition >= len(partitions):
            raise Unusable("There is no such partition.")
        away = self.watcher.facts.away()
        there = [
            each.address for each in (brokers.brokers.values() if brokers else ()) if each.broker not in away
        ]
        bootstrap = tuple(there) or self.watcher.bootstrap
        return await self.watcher.for_view(messages.browse, bootstrap, query, self._plain)

    async def _groups(self, request: Request) -> Any:
        return await self._groups_watch.look(request.query_params.get("id", ""))

    async def _play(self, request: Request) -> Any:
        command = await read_object(request, PLAYGROUND_BYTES_MAX)
        assert self._playground is not None
        if command.get("action") == "open":
            await self._playground.open()
            return {"words": ""}
        return {"words": await self._playground.act(command)}

    async def _preview(self, request: Request) -> Any:
        assert self._changes is not None
        return await self._changes.preview(await read_object(request))

    async def _apply(self, request: Request) -> Any:
        assert self._changes is not None
        return {"words": await self._changes.apply(await read_object(request))}

    async def _what_if(self, request: Request) -> Any:
        try:
            faults = what_if.faults_of(request.query_params)
        except ValueError:
            raise Unusable("Brokers are given as numbers, with commas between them.") from None
        internal = request.query_params.get("internal") == "1"
        return await self.watcher.for_view(what_if.what_if, self.watcher.facts, faults, internal=internal)


async def _no_such_view(_request: Request, _error: Exception) -> Response:
    """For a mistyped address. Plain, so that nothing of the address is in it."""
    return PlainTextResponse("There is no such view. The page begins at /.\n", 404)


def _query(name: str, request: Request) -> messages.Query:
    """ValueErrors become a sentence."""
    found = request.query_params
    begin = found.get("from", "newest")
    try:
        if begin not in ("newest", "oldest"):
            int(begin[1:] if begin[:1] in ("@", "<") else begin)
        is_whole = found.get("whole") == "1"  # one message in full length: many would be too much
        return messages.Query(
            name,
            max(int(found.get("partition", "0")), 0),
            begin,
            1 if is_whole else min(max(int(found.get("limit", "50")), 1), messages.LIMIT_MAX),
            found.get("match", ""),
            found.get("hidden") == "1",
            is_whole,
        )
    except ValueError:
        raise Unusable("Offsets, times and partitions are numbers.") from None


class Guarded:
    """Checks every request, and adds the headers to every answer."""

    def __init__(self, app: ASGIApp, token: str = "") -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no web sockets here
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        reason = guard.refusal(scope["method"], headers, self._token)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                added = [
                    (name.encode(), value.encode())
                    for name, value in guard.HEADERS.items()
                    if name.encode() not in there
                ]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        respond: ASGIApp = PlainTextResponse(f"{reason}\n", 403) if reason else self._app
        await respond(scope, receive, send_guarded)


def listen(host: str, port: int) -> socket.socket:
    """OSError: another process listens there."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Connections are accepted from now on: the address is printed before the server runs.
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def serve(
    bootstrap: Iterable[Address],
    listener: socket.socket,
    may: Access = READ_ONLY,
    security: Security = OPEN,
) -> None:
    """Until SIGTERM or Ctrl-C. ``security``: of all connections to brokers."""
    connecting.use(security)
    page = Page(bootstrap, may)
    config = uvicorn.Config(
        page.app(),
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    _Server(config, page.hub).run(sockets=[listener])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._hub.close()
        await super().shutdown(sockets)
