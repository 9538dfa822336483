"""The error codes that a coordinator returns when a write to its log fails."""

from tidelog.errors import ErrorCode

_IN_A_COORDINATORS_WORDS = {
    # Another broker is the coordinator, or soon will be: the client sends FindCoordinator.
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    # No broker can coordinate at present: the client retries.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # The records of one request do not fit into a batch: a retry would fail again.
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
}


def coordinator_error(code: ErrorCode) -> ErrorCode:
    """Translate the error of a partition for clients of a coordinator, which do not know the partition.
    MESSAGE_TOO_LARGE is kept, because each API has its own code for it.
    """
    return _IN_A_COORDINATORS_WORDS.get(code, code)
