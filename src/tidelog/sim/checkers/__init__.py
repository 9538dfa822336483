"""What Tidelog promises, checked from outside during and after a simulation.

None of these ask the code under test for its opinion: they see the replicas' roles, the content of logs and
disks, and the responses to clients.

========================= ================================================================================
checker                   promise
========================= ================================================================================
:mod:`.replicas`          one leader per partition and epoch; high watermarks and epochs never go back;
                          below the high watermark all replicas stay equal
:mod:`.metadata`          all nodes derive the same state from the metadata log
:mod:`.promises`          by mode: the fault sets under which a committed record may be lost, which
                          replicas must hold what is committed, what an acknowledgement means
:mod:`.history`           what clients saw: nothing lost, doubled, reordered, invented, skipped or
                          read twice
========================= ================================================================================
"""

from tidelog.sim.checkers.batches import Batch, batches_between
from tidelog.sim.checkers.violation import Violation

__all__ = ["Batch", "Violation", "batches_between"]
