"""Who leads a partition when brokers come and go: one module per replication mode, an image in, an image out.

Nothing outside asks which mode a partition has; it asks for the partition's next state.
"""

from collections.abc import Callable

from tidelog.config.modes import ISR
from tidelog.controller.image import PartitionImage
from tidelog.controller.standing import Standing
from tidelog.controller.successions import isr
from tidelog.controller.successions.steps import Rules

Succession = Callable[[PartitionImage, Standing, Rules], PartitionImage]

BY_MODE: dict[str, Succession] = {ISR: isr.next_state}


def next_state(partition: PartitionImage, standing: Standing, rules: Rules) -> PartitionImage:
    """The partition after brokers came or went. Equal to the present one where nothing has to change."""
    return BY_MODE[partition.mode](partition, standing, rules)
