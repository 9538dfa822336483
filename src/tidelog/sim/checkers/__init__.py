"""What Tidelog promises, looked at from outside while a simulation runs and when it is over.

None of these ask the code under test what it thinks: they see which replica took which role, what lies in
logs and on disks, and what clients were told.

========================= ================================================================================
checker                   promise
========================= ================================================================================
:mod:`.replicas`          one leader per partition and epoch; watermarks and epochs never go back; below
                          the watermark all replicas are equal, for ever
:mod:`.metadata`          all nodes make the same of the metadata log
:mod:`.promises`          by mode: the fault sets under which a committed record may be gone, who must
                          hold what is committed, what an ok means
:mod:`.history`           what clients were told: nothing lost, doubled, reordered, invented, skipped or
                          read twice
========================= ================================================================================
"""

from tidelog.sim.checkers.batches import Batch, batches_between
from tidelog.sim.checkers.violation import Violation

__all__ = ["Batch", "Violation", "batches_between"]
