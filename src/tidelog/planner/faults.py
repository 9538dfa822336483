"""Where a partition's replicas and the controllers are, and sets of faults that hit them.

Every broker has one fault at most. Faults may begin in any order, and brokers may return in any order: a
promise about data holds for all of them. A promise about writes and reads is about the time while all faults
last.
"""

from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

SLOW = "slow"  # does not keep up, or was away and has not caught up
DEAD = "dead"  # the process has ended; its machine and its disk are intact
CUT_OFF = "cut off"  # reaches no other node; clients may still reach it
POWER_LOST = "power lost"  # what was not synced is gone; several are without power at once
DISK_LOST = "disk lost"  # everything on it is gone

EVENTS = (SLOW, DEAD, CUT_OFF, POWER_LOST, DISK_LOST)
"""From the mildest to the worst."""

DOWN = frozenset({DEAD, POWER_LOST, DISK_LOST})
"""Such a broker serves nothing."""


class Placement(NamedTuple):
    """One partition, and what surrounds it."""

    replicas: tuple[int, ...]  # brokers; the first one leads, or is the primary
    controllers: tuple[int, ...] = ()  # voters of the metadata log; none: elsewhere, and alive
    racks: tuple[tuple[int, str], ...] = ()  # broker and its rack

    def rack_of(self, broker: int) -> str:
        return next((rack for each, rack in self.racks if each == broker), "")

    @property
    def rack_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(rack for _, rack in self.racks))

    def in_rack(self, name: str) -> frozenset[int]:
        return frozenset(broker for broker, rack in self.racks if rack == name)

    @property
    def separate_controllers(self) -> tuple[int, ...]:
        """Controllers that hold no replica."""
        return tuple(each for each in self.controllers if each not in self.replicas)


class Faults(NamedTuple):
    """What is wrong at the same time. Brokers have their numbers."""

    slow: frozenset[int] = frozenset()
    dead: frozenset[int] = frozenset()
    cut_off: frozenset[int] = frozenset()
    power_lost: frozenset[int] = frozenset()
    disk_lost: frozenset[int] = frozenset()
    controllers_lost: bool = False  # their majority, besides those that the faults of brokers take
    controllers_silent: bool = False  # If so: nothing tells others that they have ended.
    frozen: frozenset[int] = frozenset()  # do not answer: no more is known, and nothing tells that they ended

    @property
    def down(self) -> frozenset[int]:
        return self.dead | self.power_lost | self.disk_lost | self.frozen

    @property
    def away(self) -> frozenset[int]:
        """Others do not hear of them."""
        return self.down | self.cut_off

    @property
    def affected(self) -> frozenset[int]:
        return self.away | self.slow

    @classmethod
    def of(
        cls, events: Mapping[int, str], *, controllers_lost: bool = False, controllers_silent: bool = False
    ) -> "Faults":
        """Broker → its fault."""

        def having(event: str) -> frozenset[int]:
            return frozenset(broker for broker, found in events.items() if found == event)

        return cls(
            having(SLOW),
            having(DEAD),
            having(CUT_OFF),
            having(POWER_LOST),
            having(DISK_LOST),
            controllers_lost,
            controllers_silent,
        )

    def events(self) -> dict[int, str]:
        """Broker → its fault, the worst one if there are several."""
        sets = (self.slow, self.dead, self.cut_off, self.power_lost, self.disk_lost)
        return {
            broker: event for event, brokers in zip(EVENTS, sets, strict=True) for broker in sorted(brokers)
        }


NONE = Faults()


def default_controllers(brokers: Iterable[int]) -> tuple[int, ...]:
    """As ``tidelog up`` has them: the first three brokers, or five of five and more; fewer brokers are all
    controllers.

    Three tolerate 1 failure and five tolerate 2. More voters would make every metadata change wait for more
    disks, and an even number tolerates no more failures than the odd one below it.
    """
    known = sorted(brokers)
    return tuple(known[:5] if len(known) >= 5 else known[:3])


def usual_placement(replicas: int, brokers: int = 0) -> Placement:
    """Replicas on the first brokers of a cluster whose brokers are the controllers."""
    count = max(brokers, replicas, 3 if not brokers else 0)
    return Placement(tuple(range(1, replicas + 1)), default_controllers(range(1, count + 1)))


def listed(names: Iterable[object], joint: str = "and") -> str:
    """``1, 2 and 3``."""
    words = [str(name) for name in names]
    return (
        words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {joint} {words[-1]}" if words else "none"
    )


def brokers_named(brokers: Set[int] | Iterable[int]) -> str:
    """``broker 1``, ``brokers 1 and 2``."""
    known = sorted(brokers)
    return f"broker{'' if len(known) == 1 else 's'} {listed(known)}"
