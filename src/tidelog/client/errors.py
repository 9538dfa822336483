"""Errors about a cluster, in words for the reader of Spark's error message."""

from tidelog.errors import ErrorCode


class ClientError(Exception):
    """The base: an error about the cluster that retries within the time allowed did not fix."""


class ClusterUnreachable(ClientError):
    """No broker responded in time."""


class UnlikelyResponse(ConnectionError):
    """A broker's answer that wrong settings explain better than a failure does: retries rarely help."""


class UnknownTopic(ClientError):
    """A topic or partition that does not exist (any more)."""


class TopicReplaced(ClientError):
    """A topic was deleted and created again: its offsets are those of other records."""


class BrokerTooOld(ClientError):
    """A broker does not serve a request that is needed."""


class FetchOffsetOutOfRange(ClientError):
    """The offset is outside the log."""


class Refused(ClientError):
    """A broker refused, and would refuse again."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: {error_name(code)}")
        self.code = code


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error code {code}"


def is_retriable(code: int) -> bool:
    """Whether the same request may succeed a moment later, perhaps on another broker."""
    try:
        return ErrorCode(code).retriable
    except ValueError:
        return False
