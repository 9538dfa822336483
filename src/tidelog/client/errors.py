"""What can go wrong with a cluster, in words for the person who reads Spark's error message."""

from tidelog.errors import ErrorCode


class ClientError(Exception):
    """The base: something about the cluster that a retry within the time allowed did not mend."""


class ClusterUnreachable(ClientError):
    """No broker answered in time."""


class UnknownTopic(ClientError):
    """A topic or partition that is not there, or no longer."""


class OffsetOutOfRange(ClientError):
    """The log does not reach from or to there any more."""


class Refused(ClientError):
    """A broker said no, and would again."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: {error_name(code)}")
        self.code = code


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error code {code}"


def is_retriable(code: int) -> bool:
    """Whether the broker says that the same may work a moment later, perhaps elsewhere."""
    try:
        return ErrorCode(code).retriable
    except ValueError:
        return False
