"""A reader of one partition: polls, commits its position, and now and then dies and continues from there."""

from collections.abc import Callable, Sequence

from tidelog.errors import CorruptBatch, ErrorCode
from tidelog.protocol.batch import BatchHeader, iterate
from tidelog.sim.checkers.batches import entries
from tidelog.sim.checkers.history import PartitionHistory
from tidelog.sim.checkers.transactions import TransactionHistory
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.clients.client import Client, ReadCall, Reply
from tidelog.sim.clients.group import GroupOffsets
from tidelog.sim.plan import LoadPlan

USUAL = LoadPlan()
HURRY = LoadPlan(poll_pause_ms=2.0, read_bytes=1 << 20)
RESTARTS = 0.01  # probability after each poll
COMMITS = 0.2


class AbortedBatches:
    """Which batches of one response belong to aborted transactions, as a consumer computes it."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._coming = sorted(aborted, key=lambda each: each[1])  # (producer id, first offset)
        self._open: set[int] = set()

    def contain(self, header: BatchHeader) -> bool:
        """Call for every batch in turn; one that ends a transaction may be the first of the response."""
        while self._coming and self._coming[0][1] < header.next_offset:
            self._open.add(self._coming.pop(0)[0])
        if header.is_control:
            self._open.discard(header.producer_id)
        return header.is_transactional and header.producer_id in self._open


class Reader:
    def __init__(
        self,
        client: Client,
        history: PartitionHistory,
        topic: str,
        partition: int,
        *,
        anywhere: bool = False,
        transactions: TransactionHistory | None = None,
        group: GroupOffsets | None = None,
        consumed: Callable[[int], None] = lambda offset: None,
        load: LoadPlan = USUAL,
    ) -> None:
        """``anywhere``: reads from any broker with a replica, not only from the leader. ``transactions``:
        reads only committed records, and reports there. ``group``: commits its position there. ``consumed``:
        called with every record.
        """
        self._client = client
        client.reads = True
        self._world = client.world
        self._history = history
        self.topic = topic
        self.partition = partition
        self._anywhere = anywhere
        self._transactions = transactions
        self._group = group
        self._consumed = consumed
        self._load = load
        self._doubts = False  # the next poll goes to the leader
        self._position = 0
        self._last_epoch = -1
        self._least_epoch = -1  # A leader of an earlier epoch does not know the records before its position.
        self._committed = 0
        self._session = history.begin(client.client_id, 0)
        self.committing = True
        self.stopped = False

    @property
    def position(self) -> int:
        return self._position

    def hurry(self) -> None:
        """The run waits for it to reach the end."""
        self._load = HURRY

    def resume(self) -> None:
        """Start at the group's offset."""
        if self._group is not None:
            self._group.fetch(self._restart)

    def start(self) -> None:
        self._world.after(self._world.chance.uniform(0, 2 * self._load.poll_pause_ms), self._poll)

    def _poll(self) -> None:
        if self.stopped:
            return
        known = self._client.leader_of(self.topic, self.partition)
        if known is not None and known[1] < self._least_epoch:
            self._client.look_up(self.topic)
            known = None
        if known is None:
            self.start()
            return
        call = ReadCall(
            self._client.client_id, self._client.next_number(), self.topic, self.partition,
            self._position, known[1], self._last_epoch, self._load.read_bytes, self._transactions is not None,
        )  # fmt: skip
        broker = self._client.any_broker() if self._anywhere and not self._doubts else known[0]
        self._doubts = False
        self._client.ask(broker, call, lambda reply: self._got(reply, broker, at_leader=broker == known[0]))

    def _got(self, reply: Reply, broker: int, *, at_leader: bool) -> None:
        lost = reply.error is ErrorCode.OFFSET_OUT_OF_RANGE or reply.diverging is not None
        if lost and not at_leader:
            self._doubts = True  # A follower may lag; the leader knows, and consumers ask it.
        elif lost and reply.diverging is None and reply.start_offset > self._position:
            self._history.begins_at(self._session, self._position, reply.start_offset)
            self._go_to(reply.start_offset)
            if self._group is not None:
                self._group.reset(self._position)
        elif lost:
            self._history.out_of_range(self._session, self._position)
            end = reply.start_offset if reply.diverging is None else reply.diverging[1]
            self._go_to(max(0, min(end, self._position)))
            if self._group is not None:
                self._group.reset(self._position)
        elif reply.error is not ErrorCode.NONE:
            self._client.look_up(self.topic)
        elif reply.left_ms > self._history.forgiven_ms:
            self._history.told_watermark(
                self._client.client_id, reply.process, broker, reply.watermark, reply.stable,
                reply.agreed_epoch,
            )  # fmt: skip
            # A partition without a leader is read from a stand-in, which metadata name as if it led: it is a
            # follower like any other, and may not have heard yet that an operator gave up what it serves.
            # A leader whose log has failed goes on serving readers until it hears of the next one.
            history = self._history
            late = history.is_unaware(reply.follower_epoch) or history.is_deposed(reply.led_epoch)
            haunted = not at_leader or late
            self._take(reply.records, reply.aborted, haunted=haunted)
            if self._maybe_commit():
                return
        self.start()

    def _take(self, records: bytes, aborted: Sequence[tuple[int, int]], *, haunted: bool) -> None:
        """``haunted``: there may be records that were given up."""
        aborting = AbortedBatches(aborted)
        for position, header in iterate(records):
            if header.next_offset <= self._position:
                self._history.went_back(self._session, header.base_offset, self._position)
            try:
                batch = list(entries(records[position : position + header.size]))
            except CorruptBatch as damage:
                name = f"{self.topic}-{self.partition}"
                raise Violation(f"{name}: {damage.message}, and it reached a reader") from damage
            found = [entry for entry in batch if entry.offset >= self._position]
            if haunted and any(map(self._history.is_ghost, found)):
                self._doubts = True
                return
            hidden = aborting.contain(header)
            for entry in found:
                self._history.read(self._session, entry)
                self._consumed(entry.offset)
                if self._transactions is not None and not hidden:
                    self._transactions.seen(entry.value)
            self._position = header.next_offset
            self._history.passed(self._session, self._position)
            self._last_epoch = header.leader_epoch
            self._least_epoch = max(self._least_epoch, header.leader_epoch)

    def _maybe_commit(self) -> bool:
        """Whether it has died, and restarts by itself."""
        if not self.committing:
            return False  # The run waits for it to reach the end.
        if self._world.chance.random() < COMMITS:
            self._committed = self._position
            if self._group is not None:
                self._group.commit(self._position, self._last_epoch)
        if self._world.chance.random() >= RESTARTS:
            return False
        if self._group is not None:
            self.resume()
        else:
            self._restart(self._committed)
        return True

    def _restart(self, offset: int, epoch: int = -1) -> None:
        self._least_epoch = max(self._least_epoch, epoch)
        self._world.note(f"reader {self._client.client_id} restarts at {offset}")
        self._go_to(offset)
        self.start()

    def _go_to(self, offset: int) -> None:
        self._position = offset
        self._last_epoch = -1
        self._session = self._history.begin(self._client.client_id, offset)
