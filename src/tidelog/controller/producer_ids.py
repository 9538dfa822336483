"""Producer ids, which are never reused. Brokers reserve them in blocks, so that not every producer needs a
decision.
"""

from tidelog.controller.image import ClusterImage
from tidelog.controller.records import ProducerIdsReserved

BLOCK_SIZE = 1000


def reserve(image: ClusterImage) -> ProducerIdsReserved:
    """The next block: from ``image.next_producer_id`` up to the record's ``next_id``."""
    return ProducerIdsReserved(image.next_producer_id + BLOCK_SIZE)
