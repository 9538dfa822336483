"""FindCoordinator, versions 0 to 6: the leader of the internal partition of a group or transactional id.

The internal topic is created at the first request. Refused: share groups.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.clients.elsewhere import likely_leader
from tidelog.broker.clients.successors import when_successors_are_known
from tidelog.broker.coordinators.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import LateResponse, respond_in_slices
from tidelog.controller.endpoints import endpoint_for
from tidelog.controller.image import BrokerImage, TopicImage
from tidelog.controller.successions import acting_leader
from tidelog.errors import ErrorCode, InvalidRequest, TidelogError
from tidelog.groups.shard import check_group_id
from tidelog.protocol.messages import Fields
from tidelog.types import NO_BROKER

GROUP, TRANSACTION = 0, 1
TOPICS = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE}


FOUND_PER_SLICE = 100  # about 3 ms


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    key_type = getattr(request, "key_type", GROUP)
    several = getattr(request, "coordinator_keys", None)
    keys = [request.key] if several is None else list(several)
    response = LateResponse(len(keys))

    def respond(refusal: TidelogError | None) -> None:
        found: list[Fields] = []

        def find_each() -> Iterator[None]:
            for key in keys:
                found.append(_find(broker, key_type, key, context.listener, refusal))
                yield

        def made() -> Fields:
            return dict(found[0]) if several is None else {"coordinators": found}

        response.work_out(
            broker.services,
            lambda: respond_in_slices(broker.services, find_each(), FOUND_PER_SLICE, made),
        )

    topic = TOPICS.get(key_type)
    if topic is None:
        respond(InvalidRequest(f"coordinators of type {key_type} are not supported"))
    else:
        broker.coordinators.topics.ensure(
            topic, lambda refusal: _respond_when_led(broker, topic, refusal, respond)
        )
    return response


def _respond_when_led(
    broker: Broker, topic: str, refusal: TidelogError | None, respond: Callable[[TidelogError | None], None]
) -> None:
    """Clients send FindCoordinator when they have lost their coordinator, so the response must not name the
    failed one again.
    """
    if refusal is not None or len(broker.image.brokers) < 2:
        respond(refusal)
        return

    def internal() -> Iterable[TopicImage]:
        found = broker.image.topics.get(topic)
        return () if found is None else (found,)

    when_successors_are_known(broker, internal, lambda: respond(None))


def _find(broker: Broker, key_type: int, key: str, listener: str, refusal: TidelogError | None) -> Fields:
    try:
        if refusal is not None:
            raise refusal
        if key_type == GROUP:
            check_group_id(key)
        return _found(broker, TOPICS[key_type], key, listener)
    except TidelogError as error:
        return {
            "key": key,
            "node_id": NO_BROKER,
            "host": "",
            "port": -1,
            "error_code": error.code,
            "error_message": error.message,
        }


def _found(broker: Broker, topic: str, key: str, listener: str) -> Fields:
    coordinator = broker.coordinators.of(topic)
    index = None if coordinator is None else coordinator.partition_of(key)
    leader = None if index is None else _available_leader(broker, topic, index)
    endpoint = None
    if leader is not None:
        endpoint = endpoint_for(broker.image, broker.broker_id, leader, listener)
    if leader is None or endpoint is None:
        raise TidelogError(
            f"the partition of {topic} for this key has no leader",
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        )
    return {
        "key": key,
        "node_id": leader.broker_id,
        "host": endpoint.host,
        "port": endpoint.port,
        "error_code": ErrorCode.NONE,
        "error_message": None,
    }


def _available_leader(broker: Broker, topic: str, index: int) -> BrokerImage | None:
    found = broker.image.topics.get(topic)
    if found is None:
        return None
    partition = broker.newest_partition(found, index)
    leader = acting_leader(partition)
    if leader in broker.lost_brokers or leader == NO_BROKER:
        leader = likely_leader(broker, partition)
    return broker.image.brokers.get(leader)
