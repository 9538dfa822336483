"""What the simulator asks of a mode and the product does not: where its leaders come from."""

from tidelog.controller.image import PartitionImage
from tidelog.replication.modes import MODES, Leaders


def elects_itself(partition: PartitionImage) -> bool:
    """Whether the replicas vote and tell who leads."""
    return MODES[partition.mode].leaders is Leaders.ELECTED
