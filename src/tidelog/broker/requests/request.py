"""What a handler knows of the request besides its body."""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.broker.partitions.validation import ValidatedBatch
from tidelog.broker.promise import Promise
from tidelog.errors import TidelogError
from tidelog.protocol.messages import Fields

Outcome = Fields | Promise[Fields]
"""A handler's answer, now or later."""


class HangUp(TidelogError):
    """Close the connection: the only way to tell a client something went wrong when it wants no answers."""


class RequestContext(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    peer: str  # address the request came from, for log lines
    kinds: int = 0  # what the connection has sent so far, see client_kinds
    # Of batches that were opened before their turn: what was found, by the identity of their bytes.
    checked: Mapping[int, ValidatedBatch | TidelogError] | None = None
