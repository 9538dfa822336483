"""Brokers that leave for good."""

from tidelog.controller.image import ClusterImage
from tidelog.controller.records import BrokerUnregistered, MetadataRecord
from tidelog.errors import ErrorCode, TidelogError


def unregister(image: ClusterImage, broker_id: int) -> list[MetadataRecord]:
    """Forget a broker. Not while it serves, or it would only register again; not while it has replicas, which
    would silently become fewer.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise TidelogError(f"there is no broker {broker_id}", ErrorCode.BROKER_ID_NOT_REGISTERED)
    if not broker.fenced:
        raise TidelogError(
            f"broker {broker_id} serves; stop it before it is forgotten", ErrorCode.INVALID_REQUEST
        )
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if broker_id in partition.replicas:
                raise TidelogError(
                    f"broker {broker_id} has a replica of {topic.name}-{index}; move it away first "
                    "(tidelog topic reassign)",
                    ErrorCode.INVALID_REQUEST,
                )
    return [BrokerUnregistered(broker_id)]
