"""What only the active controller can do, asked from any broker.

Two ways lead there. Clients' requests are passed on as they are (the connection sees to that):
:data:`RELAYED` says which, and what to answer when no controller could be reached in time. And a broker's own
wishes: :func:`ask_controller`.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any

from tidelog.broker.links.ports import BrokerPorts
from tidelog.controller.topics import NewTopic
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields, milliseconds, name_of

Done = Callable[[Any], None]
"""Gets the answer as kio's entity, or a ``TidelogError``."""

CREATE_TOPICS = 19
TIMEOUT_MS = 10_000  # of requests that name none
TIMEOUT_MAX_MS = 60_000
RETRY_MS = 30
KNOWN_WITHIN_MS = 3000
LOOK_AGAIN_MS = 2

_ASK_AGAIN = frozenset(
    {ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_CONTROLLER}
)


# --- a broker's own wishes ----------------------------------------------------------------------------------


def ask_controller(
    broker: BrokerPorts, api_key: int, body: Fields, done: Done, timeout_ms: int = TIMEOUT_MS
) -> None:
    """Ask whichever node is the active controller, again and again until one answers or time is up. A request
    whose connection broke may have been carried out: ask only what may be carried out twice.
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

    def _answered(self, answer: Any) -> None:
        if isinstance(answer, TidelogError):
            if answer.code in _ASK_AGAIN:
                self._again(answer)
                return
        elif _says_only(answer, ErrorCode.NOT_CONTROLLER):
            self._again(TidelogError("that node is not the active controller", ErrorCode.NOT_CONTROLLER))
            return
        self._done(answer)

    def _again(self, reason: TidelogError) -> None:
        services = self._broker.services
        if services.uptime_ms() + RETRY_MS < self._deadline_ms:
            services.later(RETRY_MS, self.attempt)
        else:
            message = f"{name_of(self._api_key)}: no controller answered in time; {reason.message}"
            self._done(TidelogError(message, ErrorCode.REQUEST_TIMED_OUT))


def _says_only(answer: Any, code: ErrorCode) -> bool:
    """Whether this error is all there is in an answer: one of several may have been carried out."""
    codes = list(_codes(answer))
    return bool(codes) and all(each == code for each in codes)


def _codes(answer: Any) -> Iterable[int]:
    """The error codes of an answer: its own when it has one that is an error, else those of its parts."""
    own = getattr(answer, "error_code", None)
    if own:
        yield own
        return
    parts = [getattr(answer, field.name) for field in fields(answer)]
    entities = [each for part in parts if isinstance(part, tuple) for each in part if is_dataclass(each)]
    if own is not None and not entities:
        yield own
    for entity in entities:
        if hasattr(entity, "error_code"):
            yield entity.error_code


def create_topic(broker: BrokerPorts, wish: NewTopic, done: Callable[[TidelogError | None], None]) -> None:
    """Have a topic created; done when this broker knows it as well, or with what prevents it."""

    def answered(answer: Any) -> None:
        if isinstance(answer, TidelogError):
            done(answer)
            return
        result = answer.topics[0]
        code = ErrorCode(result.error_code)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            done(TidelogError(result.error_message or code.name, code))
            return
        when_known(
            broker, lambda: wish.name in broker.image.topics, lambda: broker.partitions.when_open(found)
        )

    def found() -> None:
        known = wish.name in broker.image.topics
        late = TidelogError("the topic is created, but not known here yet", ErrorCode.LEADER_NOT_AVAILABLE)
        done(None if known else late)

    topic = {
        "name": wish.name,
        "num_partitions": wish.partitions,
        "replication_factor": wish.replicas,
        "assignments": [
            {"partition_index": index, "broker_ids": replicas} for index, replicas in wish.assignments.items()
        ],
        "configs": [{"name": name, "value": value} for name, value in wish.configs.items()],
    }
    ask_controller(broker, CREATE_TOPICS, {"topics": [topic], "timeout": TIMEOUT_MS}, answered)


def when_known(
    broker: BrokerPorts,
    known: Callable[[], bool],
    done: Callable[[], None],
    timeout_ms: int = KNOWN_WITHIN_MS,
    again_ms: int = LOOK_AGAIN_MS,
) -> None:
    """Wait until this broker's metadata has come as far as somebody else's, but not for ever."""
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
    """For answers with an error of its own for everything that was asked for."""

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


RELAYED: dict[int, Refuse] = {
    CREATE_TOPICS: _refuse_each("topics", "topics", "name"),
    20: _refuse_deletion,  # DeleteTopics
    33: _refuse_each("resources", "responses", "resource_type", "resource_name"),  # AlterConfigs
    37: _refuse_each("topics", "results", "name"),  # CreatePartitions
    43: _refuse_all,  # ElectLeaders
    44: _refuse_each("resources", "responses", "resource_type", "resource_name"),  # IncrementalAlterConfigs
    45: _refuse_all,  # AlterPartitionReassignments
    46: _refuse_all,  # ListPartitionReassignments
    55: _refuse_all,  # DescribeQuorum
    57: _refuse_all,  # UpdateFeatures
    64: _refuse_all,  # UnregisterBroker
    67: _refuse_all,  # AllocateProducerIds
    80: _refuse_all,  # AddRaftVoter
    81: _refuse_all,  # RemoveRaftVoter
}
"""Requests that every broker takes and passes on, and how each is refused."""


def timeout_ms_of(request: Any) -> int:
    """How long a client wants its request to be tried."""
    timeout = getattr(request, "timeout", None)
    return TIMEOUT_MS if timeout is None else min(max(milliseconds(timeout), 0), TIMEOUT_MAX_MS)
