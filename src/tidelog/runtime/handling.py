"""Handles requests of all APIs except Produce and Fetch: calls the handler and encodes its response.

Every request gets a response, even after an exception. A defect must not affect more than this request.
Without a response, the later responses of the connection could not be sent.
"""

import logging
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Protocol

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future
from tidelog.broker.guards.changes import changes_of, note_changes
from tidelog.broker.guards.parts import Forbidden, Merge
from tidelog.broker.guards.table import admit
from tidelog.broker.links.to_controller import is_for_next_controller
from tidelog.broker.registry import SERVED
from tidelog.broker.requests.request import RequestContext
from tidelog.broker.slices import LateResponse, SlicedResponse
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol import messages
from tidelog.protocol.wire import STRUCT_ERROR, Malformed, skip_tags
from tidelog.runtime.large_requests import HUGE_BYTES

logger = logging.getLogger(__name__)

Compute = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""Runs work in a thread. The callback gets its result or exception on the event loop."""


class HoldableConnection(Protocol):
    """A connection that can stop taking requests for a while."""

    def hold(self) -> None: ...

    def resume(self) -> None: ...

    def await_rows(self, count: int) -> None:
        """A response with so many rows will be worked out after a wait."""

    def rows_made(self, count: int) -> None: ...


ENCODED_AT_ONCE_MAX = 500  # elements of a response: about 4 ms

INTERNAL_ERROR = "a request failed with an internal error"

HEADER = Struct(">hhih")  # api key, version, correlation id, length of the client id


def read_header(request: memoryview, peer: str) -> tuple[RequestContext, int]:
    """The context of a request and the position of its body. Raises :class:`Malformed` for an unknown API."""
    try:
        api_key, version, correlation_id, client_size = HEADER.unpack_from(request, 0)
        api = SERVED.get(api_key)
        if api is None or not api.oldest <= version <= api.newest:
            raise Malformed(f"UNSUPPORTED_VERSION: {messages.name_of(api_key)} version {version}")
        position = 10 + max(client_size, 0)
        client_id = str(request[10:position], "utf-8", "replace") if client_size >= 0 else None
        if messages.is_flexible(api_key, version):
            position = skip_tags(request, position)
    except (IndexError, STRUCT_ERROR):
        raise Malformed("a request header that ends too early") from None
    return RequestContext(api_key, version, correlation_id, client_id, peer), position


def handle_plain(
    broker: Broker,
    request: memoryview,
    position: int,
    context: RequestContext,
    finish: Callable[[bytes], None],
    give_up: Callable[[str], None],
    compute: Compute | None = None,
    connection: HoldableConnection | None = None,
) -> None:
    """``finish`` gets the response frame, immediately or later. ``give_up`` is called if no response can be
    encoded. ``compute`` runs the decoding of huge requests and the encoding of large responses.
    ``connection`` handles no further request meanwhile, or while this one is handled in slices. Raises
    :class:`Malformed`.
    """
    plain = _PlainRequest(broker, context, finish, give_up, compute, connection)
    if compute is None or connection is None or len(request) < HUGE_BYTES:
        plain.handle(messages.decode(context.api_key, context.version, request, position))
    else:
        connection.hold()
        compute(
            lambda: messages.decode(context.api_key, context.version, request, position),
            plain.decoded_elsewhere,
        )


def handle_decoded(
    broker: Broker,
    decoded: Any,
    context: RequestContext,
    finish: Callable[[bytes], None],
    give_up: Callable[[str], None],
    compute: Compute | None = None,
    connection: HoldableConnection | None = None,
    moved: Callable[[], None] | None = None,
) -> None:
    """The same for a request that was decoded before. ``moved`` is called in place of ``finish`` if this node
    is no longer the active controller, and another one must be asked.
    """
    _PlainRequest(broker, context, finish, give_up, compute, connection, moved).handle(decoded)


def why_not_decoded(context: RequestContext, error: BaseException) -> str:
    """The reason to close the connection, after a thread could not decode its request."""
    if isinstance(error, TidelogError):
        return error.message
    name = messages.name_of(context.api_key)
    logger.error("%s v%s cannot be decoded", name, context.version, exc_info=error)
    return INTERNAL_ERROR


class _PlainRequest:
    """One request between its decoding and its response frame.

    The steps: :meth:`handle` calls the handler, :meth:`_await` waits for its response, :meth:`_respond`
    encodes the response or has it encoded in a thread, and ``finish`` gets the frame.
    """

    __slots__ = (
        "_broker", "_changes", "_compute", "_connection", "_context", "_finish", "_give_up", "_is_refused",
        "_merge", "_moved",
    )  # fmt: skip

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        finish: Callable[[bytes], None],
        give_up: Callable[[str], None],
        compute: Compute | None,
        connection: HoldableConnection | None,
        moved: Callable[[], None] | None = None,
    ) -> None:
        self._moved = moved
        self._merge: Merge | None = None  # adds to the response what the access rules refused
        self._changes: Sequence[str] | None = None  # for the audit log
        self._is_refused = False  # by the access rules, as a whole
        self._broker = broker
        self._context = context
        self._finish = finish
        self._give_up = give_up
        self._compute = compute
        self._connection = connection

    @property
    def _name(self) -> str:
        """The API and its version, as they are logged."""
        return f"{messages.name_of(self._context.api_key)} v{self._context.version}"

    # --- the request ----------------------------------------------------------------------------------------

    def decoded_elsewhere(self, decoded: Any) -> None:
        """A thread has decoded the request, or failed to."""
        if isinstance(decoded, BaseException):
            self._give_up(why_not_decoded(self._context, decoded))
        else:
            self.handle(decoded)
        self._resume()

    def handle(self, decoded: Any) -> None:
        context = self._context
        try:
            outcome = self._call_handler(decoded)
        except TidelogError as refusal:
            logger.error("%s of %s failed: %s", self._name, context.peer, refusal.message)
            self._fail(refusal.code)
        except Exception:
            logger.exception("%s of %s failed", self._name, context.peer)
            self._fail(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            self._await(outcome)

    def _call_handler(self, decoded: Any) -> Any:
        broker, context = self._broker, self._context
        if broker.audit is not None:
            self._changes = changes_of(decoded, context)
        if broker.access is not None:
            admitted = admit(broker, decoded, context)
            if isinstance(admitted, Forbidden):
                self._is_refused = True
                return admitted.fields
            decoded, self._merge = admitted
        return SERVED[context.api_key].handler(broker, decoded, context)  # type: ignore[misc]

    def _await(self, outcome: Any) -> None:
        """``outcome`` is the response, or a future of it."""
        connection = self._connection
        if isinstance(outcome, SlicedResponse) and connection is not None:
            connection.hold()
            outcome.when_taken(connection.resume)
        if isinstance(outcome, LateResponse) and connection is not None and not outcome.is_complete:
            self._await_rows(outcome, connection)
        elif isinstance(outcome, Future):
            outcome.then(self._complete)
        else:
            self._complete(outcome)

    def _await_rows(self, response: LateResponse, connection: HoldableConnection) -> None:
        def made(fields: messages.Fields) -> None:
            self._complete(fields)
            connection.rows_made(response.rows)

        connection.await_rows(response.rows)
        response.then(made)

    # --- the response ---------------------------------------------------------------------------------------

    def _complete(self, fields: messages.Fields) -> None:
        # Also called by code that completes a future: an exception must not propagate to it.
        try:
            self._respond(fields)
        except Exception:
            logger.exception("the response to %s failed", self._name)
            self._give_up(INTERNAL_ERROR)

    def _respond(self, fields: messages.Fields) -> None:
        if self._moved is not None and is_for_next_controller(fields):
            self._moved()
            return
        if self._merge is not None:
            fields = self._merge(fields)
        if self._changes is not None:
            note_changes(self._broker, self._context, self._changes, fields, refused=self._is_refused)
        if self._compute is not None and messages.has_more_elements(fields, ENCODED_AT_ONCE_MAX):
            if self._connection is not None:
                self._connection.hold()  # Otherwise a client could make it keep a thousand such responses.
            self._compute(lambda: self._encode(fields), self._encoded_elsewhere)
            return
        try:
            frame = self._encode(fields)
        except Exception as error:
            self._encoded(error)
        else:
            self._finish(frame)

    def _encode(self, fields: messages.Fields) -> bytes:
        context = self._context
        return messages.encode(context.api_key, context.version, context.correlation_id, fields)

    def _encoded_elsewhere(self, frame: bytes | BaseException) -> None:
        """A thread has encoded the response, or failed to."""
        self._encoded(frame)
        self._resume()

    def _encoded(self, frame: bytes | BaseException) -> None:
        if isinstance(frame, bytes):
            self._finish(frame)
            return
        logger.error("the response to %s cannot be encoded", self._name, exc_info=frame)
        self._fail(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _fail(self, code: ErrorCode) -> None:
        try:
            frame = self._encode({"error_code": code})
        except Exception:
            self._give_up(INTERNAL_ERROR)
        else:
            self._finish(frame)

    def _resume(self) -> None:
        if self._connection is not None:
            self._connection.resume()
