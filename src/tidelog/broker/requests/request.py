"""The context of a request: everything besides its body."""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.broker.future import Future
from tidelog.broker.partitions.validation import ValidatedBatch
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields
from tidelog.security.principal import ANONYMOUS, Principal

Outcome = Fields | Future[Fields]
"""The fields of a response, or a future of them."""


class HangUp(TidelogError):
    """Close the connection. That is the only way to report an error to a client that wants no response."""


class RequestContext(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    peer: str  # address the request came from, for log lines
    kinds: int = 0  # of requests that the connection has sent so far, see client_kinds
    # Results for batches that were checked before their append, by the identity of their bytes.
    checked: Mapping[int, ValidatedBatch | TidelogError] | None = None
    principal: Principal = ANONYMOUS  # who the connection has authenticated as
    listener: str = ""  # name of the listener that the connection came in by
    by_node: bool = False  # from a node of the cluster: access rules do not apply

    @property
    def host(self) -> str:
        """The address of the client, without its port."""
        return self.peer.rpartition(":")[0]


def error_of(refusal: TidelogError | None) -> Fields:
    """The error in a response, or in a row of it, with its message."""
    if refusal is None:
        return {"error_code": ErrorCode.NONE, "error_message": None}
    return {"error_code": refusal.code, "error_message": refusal.message}
