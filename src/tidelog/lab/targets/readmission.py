"""Controllers that lost their disks: until they are readmitted with the new ones, they do not vote.

Three controllers, of which one waits for its readmission, tolerate no other failure. So the next fault waits
for it, as an operator would.
"""

from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

from tidelog.lab.faults.injected import Injected

Voters = Mapping[int, UUID]


class Readmissions:
    def __init__(self, voters: Callable[[], Voters]) -> None:
        """``voters``: the controllers that vote now, with their disks; empty: not known."""
        self._voters = voters
        self._awaited: dict[int, UUID] = {}  # with the disk that is gone

    def wiping(self, brokers: Iterable[int], wipe: Callable[[], Injected]) -> Injected:
        """Wipe these brokers now. From the end of the fault on, their readmission is awaited."""
        before = self._voters()
        fault = wipe()
        gone = {broker: before[broker] for broker in brokers if broker in before}

        def heal() -> None:
            fault.heal()
            self._awaited.update(gone)

        return Injected(fault.name, heal)

    def are_over(self) -> bool:
        """Whether every controller votes again that was started with another disk."""
        if self._awaited and (now := self._voters()):
            self._awaited = {
                each: disk for each, disk in self._awaited.items() if now.get(each, disk) == disk
            }
        return not self._awaited
