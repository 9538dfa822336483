"""A leader's proposals for another in-sync set: the pending one, and those that were refused."""

from tidelog.replication.effects import Effects, ProposeInSync


class InSyncProposals:
    __slots__ = ("_refused_epoch", "_unwelcome", "pending")

    def __init__(self) -> None:
        # The pending proposal, until a response or new metadata ends it. The controller may never have
        # received it, so it has to be repeated.
        self.pending: tuple[int, ...] | None = None
        # Replicas whose proposal was refused since the in-sync set last changed or a replica came back. They
        # are not proposed again before :meth:`welcome_all`.
        self._unwelcome: frozenset[int] = frozenset()
        self._refused_epoch = -1  # partition epoch at which a proposal was last refused

    def propose(
        self, members: tuple[int, ...], epoch: int, partition_epoch: int, *, sealed: bool = False
    ) -> Effects:
        self.pending = members
        return [ProposeInSync(members, epoch, partition_epoch, sealed)]

    def drop(self) -> None:
        """End the pending proposal without a verdict."""
        self.pending = None

    def welcome_all(self) -> None:
        self._unwelcome = frozenset()

    def may_add(self, replica: int) -> bool:
        """Whether a proposal with this new member can be made now."""
        return self.pending is None and replica not in self._unwelcome

    def is_welcome(self, replica: int) -> bool:
        return replica not in self._unwelcome

    def refused(self, in_sync: tuple[int, ...]) -> None:
        """The pending proposal was refused while this replica leads. Other followers that have caught up were
        not proposed while it was pending. A dead one must not keep them out.
        """
        self._unwelcome |= frozenset(self.pending or ()).difference(in_sync)
        self.pending = None

    def refusal_recorded(self, partition_epoch: int) -> None:
        """A metadata record will tell of a refusal at this partition epoch, too."""
        self._refused_epoch = partition_epoch

    def decided(self, in_sync: tuple[int, ...], partition_epoch: int, *, unchanged: bool) -> None:
        """The metadata has a new state of the partition; ``unchanged``: the same replicas and members."""
        if unchanged and (self.pending is not None or self._refused_epoch == partition_epoch - 1):
            # The proposal was refused, or is void for another reason. Repeating it at once could go on
            # forever, and cost a metadata record each time.
            self.refused(in_sync)
        else:
            self.pending = None
            self.welcome_all()
