"""Which faults there are, what they need, and what they take. ``tidelog lab list`` prints it, the reader of
experiments checks against it.
"""

from typing import NamedTuple

PROCESS, NETWORK, DISK, CLOCK, ADMINISTRATION = "process", "network", "disk", "clock", "administration"


class Parameter(NamedTuple):
    name: str
    kind: type
    default: object
    words: str


class FaultKind(NamedTuple):
    name: str
    group: str
    words: str
    parameters: tuple[Parameter, ...] = ()
    is_momentary: bool = False  # nothing to heal

    @property
    def is_between(self) -> bool:
        """Whether it is between two parties, not on one."""
        return self.group == NETWORK


def _p(name: str, default: object, words: str) -> Parameter:
    return Parameter(name, type(default), default, words)


FAULTS: dict[str, FaultKind] = {
    kind.name: kind
    for kind in (
        FaultKind("kill", PROCESS, "kill -9; healed by a start"),
        FaultKind("freeze", PROCESS, "SIGSTOP; healed by SIGCONT"),
        FaultKind("stop", PROCESS, "a clean stop (SIGTERM); healed by a start"),
        FaultKind(
            "restart", PROCESS, "a clean stop and a start, one broker after the other", is_momentary=True
        ),
        FaultKind("cut", NETWORK, "no bytes in either direction"),
        FaultKind("one-way-cut", NETWORK, "no bytes from the first party to the second"),
        FaultKind(
            "delay",
            NETWORK,
            "every byte comes later",
            (_p("ms", 50.0, "each way"), _p("jitter_ms", 0.0, "more or less, at random")),
        ),
        FaultKind(
            "loss",
            NETWORK,
            "lost packets (as the stalls that TCP makes of them, without root)",
            (_p("percent", 1.0, "of packets"),),
        ),
        FaultKind("bandwidth", NETWORK, "a slow line", (_p("kbytes_per_s", 1000.0, "each way"),)),
        FaultKind("slow-disk", DISK, "writes and syncs take longer", (_p("ms", 50.0, "each"),)),
        FaultKind("full-disk", DISK, "writes fail with ENOSPC"),
        FaultKind("failing-disk", DISK, "writes and syncs fail with EIO"),
        FaultKind(
            "flipped-bit", DISK, "one bit of the oldest segment changes on the disk", is_momentary=True
        ),
        FaultKind(
            "power-failure",
            DISK,
            "kill -9, and everything not synced is gone, names included; healed by a start",
        ),
        FaultKind("wipe", DISK, "kill -9 and an empty disk; healed by a start"),
        FaultKind(
            "clock-jump",
            CLOCK,
            "the broker's wall clock is set",
            (_p("seconds", 3600.0, "forward; negative: back"),),
        ),
        FaultKind("reassign", ADMINISTRATION, "partitions move to other replicas", is_momentary=True),
        FaultKind("drain", ADMINISTRATION, "the broker gives up its leaderships"),
        FaultKind(
            "change-mode",
            ADMINISTRATION,
            "the topic gets another replication mode",
            (_p("mode", "quorum", "the new one"),),
            is_momentary=True,
        ),
        FaultKind(
            "change-settings",
            ADMINISTRATION,
            "the topic gets other settings",
            (_p("settings", "", "name=value, separated by commas"),),
            is_momentary=True,
        ),
    )
}
