"""Handles requests of all APIs except Produce and Fetch: calls the handler and encodes its response.

Every request gets a response, even after an exception. A defect must not affect more than this request.
Without a response, the later responses of the connection could not be sent.
"""

import logging
from collections.abc import Callable
from struct import Struct
from typing import Any, Protocol

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future
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
    api_key, version = context.api_key, context.version

    def decode() -> Any:
        return messages.decode(api_key, version, request, position)

    def decoded_elsewhere(decoded: Any) -> None:
        if isinstance(decoded, BaseException):
            give_up(why_not_decoded(context, decoded))
        else:
            handle(decoded)
        if connection is not None:
            connection.resume()

    def handle(decoded: Any) -> None:
        handle_decoded(broker, decoded, context, finish, give_up, compute, connection)

    if compute is None or connection is None or len(request) < HUGE_BYTES:
        handle(decode())
    else:
        connection.hold()
        compute(decode, decoded_elsewhere)


def why_not_decoded(context: RequestContext, error: BaseException) -> str:
    """The reason to close the connection, after a thread could not decode its request."""
    if isinstance(error, TidelogError):
        return error.message
    name = messages.name_of(context.api_key)
    logger.error("%s v%s cannot be decoded", name, context.version, exc_info=error)
    return "a request failed with an internal error"


def handle_decoded(
    broker: Broker,
    decoded: Any,
    context: RequestContext,
    finish: Callable[[bytes], None],
    give_up: Callable[[str], None],
    compute: Compute | None = None,
    connection: HoldableConnection | None = None,
) -> None:
    """The same for a request that was decoded before."""
    api_key, version = context.api_key, context.version

    def answer(fields: messages.Fields) -> None:
        # Also called by code that completes a future: an exception must not propagate to it.
        try:
            respond(fields)
        except Exception:
            logger.exception("the response to %s v%s failed", messages.name_of(api_key), version)
            give_up("a request failed with an internal error")

    def respond(fields: messages.Fields) -> None:
        if compute is not None and messages.has_more_elements(fields, ENCODED_AT_ONCE_MAX):
            if connection is not None:
                connection.hold()  # Otherwise a client could make it keep a thousand such responses.
            compute(lambda: encode(fields), encoded_elsewhere)
            return
        try:
            frame = encode(fields)
        except Exception as error:
            encoded(error)
        else:
            finish(frame)

    def encode(fields: messages.Fields) -> bytes:
        return messages.encode(api_key, version, context.correlation_id, fields)

    def encoded_elsewhere(frame: bytes | BaseException) -> None:
        encoded(frame)
        if connection is not None:
            connection.resume()

    def encoded(frame: bytes | BaseException) -> None:
        if isinstance(frame, bytes):
            finish(frame)
            return
        name = messages.name_of(api_key)
        logger.error("the response to %s v%s cannot be encoded", name, version, exc_info=frame)
        _fail(context, ErrorCode.UNKNOWN_SERVER_ERROR, finish, give_up)

    try:
        outcome = SERVED[api_key].handler(broker, decoded, context)  # type: ignore[misc]
    except TidelogError as refusal:
        name = messages.name_of(api_key)
        logger.error("%s v%s of %s failed: %s", name, version, context.peer, refusal.message)
        _fail(context, refusal.code, finish, give_up)
    except Exception:
        logger.exception("%s v%s of %s failed", messages.name_of(api_key), version, context.peer)
        _fail(context, ErrorCode.UNKNOWN_SERVER_ERROR, finish, give_up)
    else:
        if isinstance(outcome, SlicedResponse) and connection is not None:
            connection.hold()
            outcome.when_taken(connection.resume)
        if isinstance(outcome, LateResponse) and connection is not None and not outcome.is_complete:
            _respond_late(outcome, answer, connection)
        elif isinstance(outcome, Future):
            outcome.then(answer)
        else:
            answer(outcome)


def _respond_late(
    response: LateResponse, answer: Callable[[messages.Fields], None], connection: HoldableConnection
) -> None:
    def made(fields: messages.Fields) -> None:
        answer(fields)
        connection.rows_made(response.rows)

    connection.await_rows(response.rows)
    response.then(made)


def _fail(
    context: RequestContext, code: ErrorCode, finish: Callable[[bytes], None], give_up: Callable[[str], None]
) -> None:
    try:
        frame = messages.encode(
            context.api_key, context.version, context.correlation_id, {"error_code": code}
        )
    except Exception:
        give_up("a request failed with an internal error")
    else:
        finish(frame)
