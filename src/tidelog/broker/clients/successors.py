"""Delays responses to Metadata and FindCoordinator that would name a leader that has just failed.

A client sends these requests as soon as it loses the connection to a leader. If the response names the failed
leader again with the epoch that the client knows, the client accepts it and asks again only after its own
slow timer: a second later in librdkafka. So a response first waits until this broker should have noticed the
failure as well. If it would then name a lost broker, it waits until the new leader is known. So it does if
this broker itself may have been replaced as leader: a process that was frozen hears of that, or that it still
leads, within a few milliseconds. All waits are short and bounded. If there is still no new leader, the
response contains no leader, and clients retry after 100 ms; elsewhere, if this broker cannot know the new
leader (:mod:`~tidelog.broker.clients.elsewhere`).
"""

import logging
from collections.abc import Callable, Iterable

from tidelog.broker.links.ports import BrokerPorts
from tidelog.broker.links.to_controller import when_known
from tidelog.controller.image import TopicImage
from tidelog.types import NO_BROKER

# A client's connection to a failed broker closes at the same time as ours. The wait gives us time to notice:
# a busy machine may take several milliseconds to close all descriptors of a process that ended.
LOOK_ROUND_MS = 12
READ_MS = 1  # A late timer runs before the sockets are read. This second timer runs after that.
SUCCESSOR_WITHIN_MS = 250  # Responses keep their order: later ones to the same client wait for this one.
FEW_TOPICS = 20
RECHECK_MS = 2
RECHECK_AT_MANY_MS = 20  # Checking every partition of the cluster takes longer.

logger = logging.getLogger(__name__)

Topics = Callable[[], Iterable[TopicImage]]


def when_successors_are_known(broker: BrokerPorts, topics: Topics, done: Callable[[], None]) -> None:
    """Call ``done`` when no leader of these topics is a lost broker, or after a timeout. ``topics`` is called
    for each check because the metadata changes meanwhile.
    """
    services = broker.services
    few = sum(1 for _ in zip(range(FEW_TOPICS + 1), topics(), strict=False)) <= FEW_TOPICS

    def is_over() -> bool:
        try:
            return not _awaits_successors(broker, topics())
        except Exception:
            # In a timer: the request would never be answered.
            logger.exception("the successors of lost leaders cannot be looked up")
            return True

    def look() -> None:
        when_known(
            broker,
            is_over,
            done,
            SUCCESSOR_WITHIN_MS,
            RECHECK_MS if few else RECHECK_AT_MANY_MS,
        )

    def look_when_read() -> None:
        # ``soon`` runs after the closed connections have been added to ``lost_brokers``.
        services.later(READ_MS, lambda: services.soon(look))

    services.later(LOOK_ROUND_MS, look_when_read)


def _awaits_successors(broker: BrokerPorts, topics: Iterable[TopicImage]) -> bool:
    quorum, lost = broker.partitions.quorum, broker.lost_brokers
    in_doubt = bool(lost) or broker.partitions.may_be_fenced
    for topic in topics:
        if quorum.awaits_leaders(topic.topic_id):
            return True
        if not in_doubt:
            continue
        newest = broker.newest(topic)
        if any(partition.leader in lost for partition in newest.partitions):
            return True
        if newest is not topic and _was_given_up(topic, newest):
            return True
    return False


def _was_given_up(topic: TopicImage, newest: TopicImage) -> bool:
    """Whether the metadata names this broker as a leader, but it does not lead any more."""
    return any(
        named.leader != NO_BROKER and known.leader == NO_BROKER
        for named, known in zip(topic.partitions, newest.partitions, strict=True)
    )
