"""What a browser asks to change: a small JSON object, and no more of it than is read."""

import json
from typing import Any

from starlette.requests import ClientDisconnect, Request

BODY_BYTES_MAX = 2 << 20


class Unusable(Exception):
    """A request that cannot be answered as it is; the message is one sentence."""


async def read_object(request: Request, bytes_max: int = BODY_BYTES_MAX) -> dict[str, Any]:
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > bytes_max:
                raise Unusable("The request is too long.")
    except ClientDisconnect:
        raise Unusable("The browser went away.") from None
    try:
        found = json.loads(bytes(body))
    except (ValueError, RecursionError):
        raise Unusable("The request is not JSON.") from None
    if not isinstance(found, dict):
        raise Unusable("The request is not a JSON object.")
    return found
