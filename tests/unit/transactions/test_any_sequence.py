"""Transactions under anything clients, failing writes, lost markers and changing coordinators can do to them.

The checks know nothing of the rules: they look at what was promised and at what partitions were told.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tidelog.errors import ErrorCode
from tidelog.transactions.effects import SendMarkers
from tidelog.transactions.records import decode
from tidelog.transactions.rules import ProducerIdAndEpoch
from tidelog.transactions.states import PREPARED, TransactionState
from tidelog.transactions.transaction import Transaction
from unit.transactions.driver import P0, P1, P2, Driver, Waiter

pytestmark = pytest.mark.slow

NAMES = ("a", "b")
partitions = st.frozensets(st.sampled_from([P0, P1, P2]), min_size=1)
names = st.sampled_from(NAMES)


class Client:
    """A producer as its client knows it. One that is refused for good stops."""

    def __init__(self, name: str, version: int) -> None:
        self.name = name
        self.version = version
        self.producer: ProducerIdAndEpoch | None = None
        self.waiting: tuple[str, Waiter, ProducerIdAndEpoch | None, bool] | None = None
        self.added: set[object] = set()
        self.retry_end: tuple[ProducerIdAndEpoch, bool] | None = None
        self.dead = False


class TransactionsMachine(RuleBasedStateMachine):
    @initialize(versions=st.lists(st.sampled_from([0, 2]), min_size=4, max_size=4))
    def open(self, versions: list[int]) -> None:
        self.driver = Driver()
        self.driver.holds_writes = True
        self.clients = [Client(NAMES[n % 2], version) for n, version in enumerate(versions)]
        self.markers: list[SendMarkers] = []  # All that were ever sent.
        self.promised: dict[tuple[str, int, int], bool] = {}  # (id, producer) that ended -> commits
        self.epochs: dict[str, list[tuple[int, int]]] = {name: [] for name in NAMES}  # Given out.

    # -- what happens ------------------------------------------------------------------

    @rule(number=st.integers(0, 3), expects=st.booleans())
    def init(self, number: int, expects: bool) -> None:
        client = self.clients[number]
        if client.waiting is None:
            expected = client.producer if expects else None
            waiter = self.driver.init(expected, name=client.name)
            client.waiting = ("init", waiter, expected, False)
            client.added.clear()
            client.retry_end = None
            client.dead = False

    @rule(number=st.integers(0, 3), wanted=partitions)
    def add(self, number: int, wanted: frozenset[object]) -> None:
        client = self.clients[number]
        if (
            client.waiting is None
            and client.producer is not None
            and not client.dead
            and not client.retry_end
        ):
            waiter = self.driver.add(client.producer, *wanted, version=client.version, name=client.name)  # type: ignore[arg-type]
            client.waiting = ("add", waiter, client.producer, False)
            client.added |= wanted

    @rule(number=st.integers(0, 3), commits=st.booleans())
    def end(self, number: int, commits: bool) -> None:
        client = self.clients[number]
        if client.waiting is None and client.producer is not None and not client.dead:
            producer = client.producer
            if client.retry_end is not None:
                producer, commits = client.retry_end
            waiter = self.driver.end(producer, commits=commits, version=client.version, name=client.name)
            client.waiting = ("end", waiter, producer, commits)

    @rule()
    def commit_writes(self) -> None:
        self.driver.commit_held()

    @rule()
    def refuse_writes(self) -> None:
        self.driver.refuse_held()

    @rule()
    def deliver_markers(self) -> None:
        self.driver.write_markers()

    @rule(duration_ms=st.sampled_from([1, 500, 2000, 30_000, 61_000]))
    def pass_time(self, duration_ms: int) -> None:
        self.driver.pass_ms(duration_ms)

    @rule(loses=st.booleans())
    def change_coordinator(self, loses: bool) -> None:
        """What was being written is in the log, or not; nobody hears which."""
        old = self.driver
        self._collect()
        if not loses:
            old.log += [record for write in old.held for record in write.records]
        old.perform(old.shard.stop())
        old.refuse_held(ErrorCode.NOT_COORDINATOR)
        self._hear()
        self.driver = old.restarted()
        self.driver.holds_writes = True

    @rule()
    def settle(self) -> None:
        """Everything that is under way comes to its end."""
        for _ in range(10):
            self.driver.commit_held()
            self.driver.write_markers()

    # -- what is promised --------------------------------------------------------------

    def _collect(self) -> None:
        for sent in self.driver.sent:
            if sent not in self.markers:
                self.markers.append(sent)

    def _hear(self) -> None:
        for client in self.clients:
            if client.waiting is not None and client.waiting[1].answers:
                what, waiter, producer, commits = client.waiting
                client.waiting = None
                getattr(self, f"_heard_{what}")(client, waiter, producer, commits)

    def _heard_init(
        self, client: Client, waiter: Waiter, expected: ProducerIdAndEpoch | None, _: bool
    ) -> None:
        if waiter.error:
            if waiter.error is ErrorCode.PRODUCER_FENCED:
                client.producer, client.dead = None, True
            else:
                client.dead = True  # Until it has an epoch again.
            return
        given = waiter.answer
        known = self.epochs[client.name]
        assert not known or known[-1][0] != given.producer_id or given.epoch > known[-1][1] or expected
        known.append(given)
        client.producer = given

    def _heard_add(self, client: Client, waiter: Waiter, producer: ProducerIdAndEpoch, _: bool) -> None:
        if waiter.error in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            client.dead = True

    def _heard_end(self, client: Client, waiter: Waiter, producer: ProducerIdAndEpoch, commits: bool) -> None:
        if not waiter.error:
            if client.added:
                self.promised[(client.name, *producer)] = commits
            client.producer = waiter.answer
            client.added.clear()
            client.retry_end = None
        elif waiter.error.retriable:
            client.retry_end = (producer, commits)
        else:
            client.dead = True

    # -- what must hold ----------------------------------------------------------------

    @invariant()
    def answers_come_once(self) -> None:
        if hasattr(self, "driver"):
            self._collect()
            for client in self.clients:
                if client.waiting is not None:
                    assert len(client.waiting[1].answers) <= 1
            self._hear()

    @invariant()
    def a_transaction_is_committed_or_aborted_never_both(self) -> None:
        if hasattr(self, "driver"):
            outcomes: dict[tuple[str, int, int], bool] = {}
            last_versions: dict[tuple[str, int, int], int] = {}
            for sent in self.markers:
                key = (sent.transactional_id, sent.producer_id, sent.epoch)
                if sent.client_version == 2:
                    # Each transaction has an epoch of its own, so its markers agree for ever.
                    assert outcomes.setdefault(key, sent.commits) == sent.commits
                last_versions[key] = sent.client_version

    @invariant()
    def the_log_tells_what_the_shard_believes(self) -> None:
        if not hasattr(self, "driver"):
            return
        known = {}
        for key, value in self.driver.log:
            record = decode(key, value)
            assert record is not None
            known[record.transactional_id] = record.transaction
        for transaction in self.driver.shard:
            in_log = known[transaction.transactional_id]
            assert in_log is not None
            if in_log.state in PREPARED and transaction.state is _COMPLETED[in_log.state]:
                continue  # That it is complete may be written later.
            assert in_log._replace(last_epoch=0) == transaction._replace(last_epoch=0)

    @invariant()
    def a_commit_that_was_promised_is_never_aborted(self) -> None:
        """From the log alone: behind a decision comes its completion, or the next transaction."""
        if not hasattr(self, "driver"):
            return
        decided: dict[str, Transaction] = {}
        for key, value in self.driver.log:
            record = decode(key, value)
            assert record is not None
            if record.transaction is None:
                continue
            state, epoch = record.transaction.state, record.transaction.epoch
            before = decided.pop(record.transactional_id, None)
            if before is not None:
                following = {
                    before.state,
                    _COMPLETED[before.state],
                    TransactionState.EMPTY,
                    TransactionState.ONGOING,
                }
                if epoch > before.epoch or record.transaction.producer_id != before.producer_id:
                    following.add(
                        TransactionState.PREPARE_ABORT
                    )  # Of nothing, by a client with an epoch for each.
                assert state in following, (before, state)
            if state in PREPARED:
                decided[record.transactional_id] = record.transaction

    @invariant()
    def what_was_promised_is_in_the_log(self) -> None:
        if not hasattr(self, "driver"):
            return
        decisions = set()
        for key, value in self.driver.log:
            record = decode(key, value)
            assert record is not None
            transaction = record.transaction
            if transaction is not None and transaction.state in PREPARED:
                epoch = transaction.epoch - (1 if transaction.client_version == 2 else 0)
                commits = transaction.state is TransactionState.PREPARE_COMMIT
                decisions.add((record.transactional_id, transaction.producer_id, epoch, commits))
        for key_, commits in self.promised.items():
            assert (*key_, commits) in decisions

    def teardown(self) -> None:
        """A healthy coordinator finishes everything."""
        if hasattr(self, "driver"):
            self.settle()
            self.driver.pass_ms(120_000)
            self.settle()
            for transaction in self.driver.shard:
                assert transaction.state not in PREPARED, transaction
                assert transaction.state is not TransactionState.ONGOING, transaction
            self.answers_come_once()
            assert all(client.waiting is None for client in self.clients)


_COMPLETED = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}

TransactionsMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
TestTransactionsProperty = TransactionsMachine.TestCase
