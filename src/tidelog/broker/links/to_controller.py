"""Requests that only the active controller can handle, sent from any broker.

There are two kinds. Requests of clients are forwarded unchanged by the connection; :data:`RELAYED` lists
them, with the response for the case that no controller could be reached in time. A broker's own requests use
:func:`ask_controller`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from tidelog.broker.links.ports import BrokerPorts
from tidelog.controller.topics import NewTopic
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields, milliseconds, name_of

Done = Callable[[Any], None]
"""Gets the response as kio's entity, or a ``TidelogError``."""

CREATE_TOPICS = 19
TIMEOUT_MS = 10_000  # of requests without a timeout
TIMEOUT_MAX_MS = 60_000
RETRY_MS = 30
KNOWN_WITHIN_MS = 3000
RECHECK_MS = 2

_ASK_AGAIN = frozenset(
    {ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_CONTROLLER}
)


# --- a broker's own requests --------------------------------------------------------------------------------


def ask_controller(
    broker: BrokerPorts, api_key: int, body: Fields, done: Done, timeout_ms: int = TIMEOUT_MS
) -> None:
    """Send a request to the active controller, with retries until a response or the timeout. A request whose
    connection broke may have been executed and is sent again, so it must be safe to execute twice.
    """
    _Asking(broker, api_key, body, done, timeout_ms).attempt()


class _Asking:
    def __init__(self, broker: BrokerPorts, api_key: int, body: Fields, done: Done, timeout_ms: int) -> None:
        self._broker = broker
        self._api_key = api_key
        self._body = body
        self._done = done
        self._deadline_ms = broker.services.uptime_ms() + timeout_ms

    def attempt(self) -> None:
        controller = self._broker.links.controller()
        if controller < 0:
            self._again(TidelogError("no active controller is known", ErrorCode.NOT_CONTROLLER))
        else:
            self._broker.links.request(controller, self._api_key, self._body, self._answered)

    def _answered(self, response: Any) -> None:
        if isinstance(response, TidelogError):
            if response.code in _ASK_AGAIN:
                self._again(response)
                return
        elif _says_only(response, ErrorCode.NOT_CONTROLLER):
            self._again(TidelogError("that node is not the active controller", ErrorCode.NOT_CONTROLLER))
            return
        self._done(response)

    def _again(self, reason: TidelogError) -> None:
        services = self._broker.services
        if services.uptime_ms() + RETRY_MS < self._deadline_ms:
            services.later(RETRY_MS, self.attempt)
        else:
            message = f"{name_of(self._api_key)}: no controller responded in time; {reason.message}"
            self._done(TidelogError(message, ErrorCode.REQUEST_TIMED_OUT))


def _says_only(response: Any, code: ErrorCode) -> bool:
    """Whether all parts of a response have this error. Otherwise a part may have been executed."""
    codes = list(_codes(response))
    return bool(codes) and all(each == code for each in codes)


def _codes(response: Any) -> Iterable[int]:
    """The error codes of a response: its own if that is an error, otherwise those of its parts."""
    own = getattr(response, "error_code", None)
    if own:
        yield own
        return
    parts = [getattr(response, field.name) for field in fields(response)]
    entities = [each for part in parts if isinstance(part, tuple) for each in part if is_dataclass(each)]
    if own is not None and not entities:
        yield own
    for entity in entities:
        if hasattr(entity, "error_code"):
            yield entity.error_code


def is_for_next_controller(fields: Fields) -> bool:
    """Whether a response says of everything that this node was no longer the active controller. If it says so
    of some parts only, the others were executed, and the client must hear that.
    """
    codes = list(_codes_in(fields))
    return bool(codes) and all(code == ErrorCode.NOT_CONTROLLER for code in codes)


def _codes_in(fields: Fields) -> Iterator[int]:
    """As :func:`_codes`, of a response that is not encoded yet."""
    own = fields.get("error_code", ErrorCode.NONE)
    parts = [part for value in fields.values() if isinstance(value, list | tuple) for part in value]
    entities = [part for part in parts if isinstance(part, dict)]
    if own or not entities:
        yield own
        return
    for entity in entities:
        yield from _codes_in(entity)


def create_topic(broker: BrokerPorts, new: NewTopic, done: Callable[[TidelogError | None], None]) -> None:
    """Create a topic. Calls ``done`` when this broker knows the topic as well, or with the error."""

    def answered(response: Any) -> None:
        if isinstance(response, TidelogError):
            done(response)
            return
        result = response.topics[0]
        code = ErrorCode(result.error_code)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            done(TidelogError(result.error_message or code.name, code))
            return
        when_known(
            broker, lambda: new.name in broker.image.topics, lambda: broker.partitions.when_open(found)
        )

    def found() -> None:
        known = new.name in broker.image.topics
        late = TidelogError(
            "the topic was created, but this broker does not know it yet", ErrorCode.LEADER_NOT_AVAILABLE
        )
        done(None if known else late)

    topic = {
        "name": new.name,
        "num_partitions": new.partitions,
        "replication_factor": new.replicas,
        "assignments": [
            {"partition_index": index, "broker_ids": replicas} for index, replicas in new.assignments.items()
        ],
        "configs": [{"name": name, "value": value} for name, value in new.configs.items()],
    }
    ask_controller(broker, CREATE_TOPICS, {"topics": [topic], "timeout": TIMEOUT_MS}, answered)


def when_known(
    broker: BrokerPorts,
    known: Callable[[], bool],
    done: Callable[[], None],
    timeout_ms: int = KNOWN_WITHIN_MS,
    again_ms: int = RECHECK_MS,
) -> None:
    """Call ``done`` when ``known()`` is true, that is, when this broker's metadata is recent enough; or after
    the timeout.
    """
    services = broker.services
    deadline_ms = services.uptime_ms() + timeout_ms

    def look() -> None:
        if known() or services.uptime_ms() >= deadline_ms:
            done()
        else:
            services.later(again_ms, look)

    look()


# --- clients' requests --------------------------------------------------------------------------------------

Refuse = Callable[[Any, ErrorCode, str], Fields]


def _refuse_all(request: Any, code: ErrorCode, message: str) -> Fields:
    return {"error_code": code, "error_message": message}


def _refuse_each(asked: str, answered: str, *names: str) -> Refuse:
    """For responses with a separate error for each part of the request."""

    def refuse(request: Any, code: ErrorCode, message: str) -> Fields:
        return {
            answered: [
                {
                    **{name: getattr(each, name) for name in names if hasattr(each, name)},
                    "error_code": code,
                    "error_message": message,
                }
                for each in getattr(request, asked)
            ]
        }

    return refuse


def _refuse_deletion(request: Any, code: ErrorCode, message: str) -> Fields:
    names = [(topic.name, topic.topic_id) for topic in getattr(request, "topics", ())]
    names += [(name, None) for name in getattr(request, "topic_names", ())]
    return {
        "responses": [
            {"name": name, "topic_id": topic_id, "error_code": code, "error_message": message}
            for name, topic_id in names
        ]
    }


def _refuse_quotas(request: Any, code: ErrorCode, message: str) -> Fields:
    return {
        "entries": [
            {
                "entity": [
                    {"entity_type": part.entity_type, "entity_name": part.entity_name}
                    for part in entry.entity
                ],
                "error_code": code,
                "error_message": message,
            }
            for entry in request.entries
        ]
    }


def _refuse_users(request: Any, code: ErrorCode, message: str) -> Fields:
    names = dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
    return {"results": [{"user": name, "error_code": code, "error_message": message} for name in names]}


RELAYED: dict[int, Refuse] = {
    CREATE_TOPICS: _refuse_each("topics", "topics", "name"),
    20: _refuse_deletion,  # DeleteTopics
    30: _refuse_each("creations", "results"),  # CreateAcls
    31: _refuse_each("filters", "filter_results"),  # DeleteAcls
    33: _refuse_each("resources", "responses", "resource_type", "resource_name"),  # AlterConfigs
    37: _refuse_each("topics", "results", "name"),  # CreatePartitions
    43: _refuse_all,  # ElectLeaders
    44: _refuse_each("resources", "responses", "resource_type", "resource_name"),  # IncrementalAlterConfigs
    45: _refuse_all,  # AlterPartitionReassignments
    46: _refuse_all,  # ListPartitionReassignments
    49: _refuse_quotas,  # AlterClientQuotas
    51: _refuse_users,  # AlterUserScramCredentials
    55: _refuse_all,  # DescribeQuorum
    57: _refuse_all,  # UpdateFeatures
    64: _refuse_all,  # UnregisterBroker
    67: _refuse_all,  # AllocateProducerIds
    80: _refuse_all,  # AddRaftVoter
    81: _refuse_all,  # RemoveRaftVoter
}
"""Requests that every broker accepts and forwards, and how each is refused."""


def timeout_ms_of(request: Any) -> int:
    """The timeout of a client's request, within bounds."""
    timeout = getattr(request, "timeout", None)
    return TIMEOUT_MS if timeout is None else min(max(milliseconds(timeout), 0), TIMEOUT_MAX_MS)
