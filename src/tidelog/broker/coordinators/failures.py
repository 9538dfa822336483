"""What a coordinator tells its clients when the log it writes to refuses."""

from tidelog.errors import ErrorCode

_IN_A_COORDINATORS_WORDS = {
    # Somebody else coordinates, or soon will: look for them.
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    # Nobody can coordinate now: try again.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # The records of one request do not fit into a batch: trying again cannot help.
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
}


def coordinator_error(code: ErrorCode) -> ErrorCode:
    """Clients of a coordinator do not know the partition behind it, and expect errors that concern a
    coordinator. MESSAGE_TOO_LARGE stays: each API has its own word for it.
    """
    return _IN_A_COORDINATORS_WORDS.get(code, code)
