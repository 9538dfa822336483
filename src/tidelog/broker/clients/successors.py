"""When an answer that names leaders may leave: not while it would name one that has just died.

A client asks who leads in the moment it loses a leader. If it hears of the dead one again, in the epoch it
knows already, it takes the answer for the truth and asks again only by its own slow timer: a second later in
librdkafka's case. So an answer first waits until this broker can have seen what the client saw, and then, if
it would name a broker that was lost, until its successor is known. Both waits are short and bounded. An
answer that still cannot name a successor says that nobody leads, upon which clients ask again after 100 ms.
"""

from collections.abc import Callable, Iterable

from tidelog.broker.links.ports import BrokerPorts
from tidelog.broker.links.to_controller import when_known
from tidelog.controller.image import TopicImage

# A client's connection to a dead broker closes together with ours: let us see ours first. A busy machine may
# take several milliseconds to close all descriptors of a dead process.
LOOK_ROUND_MS = 12
READ_MS = 1  # A timer that is late runs before what has arrived meanwhile is read. This one runs after it.
SUCCESSOR_WITHIN_MS = 250  # Answers keep their order: later ones to the same client wait behind this one.
FEW_TOPICS = 20
LOOK_AGAIN_MS = 2
LOOK_AGAIN_AT_MANY_MS = 20  # Looking at every partition of the cluster takes its time.

Topics = Callable[[], Iterable[TopicImage]]


def when_successors_are_known(broker: BrokerPorts, topics: Topics, done: Callable[[], None]) -> None:
    """Call ``done`` when no leader of these topics is known to be dead, or the time for that is over.
    ``topics`` are looked up each time: the metadata changes meanwhile.
    """
    services = broker.services
    few = sum(1 for _ in zip(range(FEW_TOPICS + 1), topics(), strict=False)) <= FEW_TOPICS

    def look() -> None:
        when_known(
            broker,
            lambda: not _awaits_successors(broker, topics()),
            done,
            SUCCESSOR_WITHIN_MS,
            LOOK_AGAIN_MS if few else LOOK_AGAIN_AT_MANY_MS,
        )

    def look_when_read() -> None:
        # The last step runs after the connections that were seen to close have been taken off the books.
        services.later(READ_MS, lambda: services.soon(look))

    services.later(LOOK_ROUND_MS, look_when_read)


def _awaits_successors(broker: BrokerPorts, topics: Iterable[TopicImage]) -> bool:
    quorum, lost = broker.partitions.quorum, broker.lost_brokers
    for topic in topics:
        if quorum is not None and quorum.awaits_leaders(topic.topic_id):
            return True
        if lost and any(partition.leader in lost for partition in broker.newest(topic).partitions):
            return True
    return False
