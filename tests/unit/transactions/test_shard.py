"""Each transition, and each refusal, which changes nothing."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.transactions.records import decode
from tidelog.transactions.rules import ENDS, ENDS_WITH_EPOCH, End, ProducerIdAndEpoch
from tidelog.transactions.shard import COMPLETION_DELAY_MS, PATIENCE_MS
from tidelog.transactions.states import AT_REST, BEFORE, PREPARED, TransactionState
from tidelog.transactions.transaction import EPOCH_MAX
from unit.transactions.driver import ID, P0, P1, P2, Driver, in_state

IN_THE_LOG = [
    state
    for state in TransactionState
    if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
]
STRANGER = 4711


def remember(driver: Driver) -> tuple[object, int]:
    return driver.transaction(), len(driver.log)


class TestInit:
    def test_a_new_id_begins_at_epoch_0(self) -> None:
        driver = Driver()
        producer = driver.init().answer
        assert (producer.epoch, driver.state) == (0, TransactionState.EMPTY)
        assert driver.transaction().producer_id == producer.producer_id == 1001

    def test_ids_do_not_share_producers(self) -> None:
        driver = Driver()
        assert driver.init(name="a").answer != driver.init(name="b").answer

    @pytest.mark.parametrize("state", sorted(AT_REST))
    def test_at_rest_the_epoch_rises(self, state: TransactionState) -> None:
        driver, producer = in_state(state)
        again = driver.init().answer
        assert again == ProducerIdAndEpoch(producer.producer_id, producer.epoch + 1)
        assert driver.state is TransactionState.EMPTY

    @pytest.mark.parametrize("state", sorted(PREPARED))
    def test_while_markers_are_written_it_waits(self, state: TransactionState) -> None:
        driver, _ = in_state(state)
        before = remember(driver)
        assert driver.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
        assert remember(driver) == before

    def test_an_open_transaction_is_aborted_first(self) -> None:
        driver, old = in_state(TransactionState.ONGOING)
        assert driver.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
        assert driver.state is TransactionState.PREPARE_ABORT
        assert driver.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
        sent = driver.write_markers()
        assert [(each.epoch, each.commits, each.partitions) for each in sent] == [
            (1, False, frozenset({P0, P1}))
        ]
        assert driver.init().answer == ProducerIdAndEpoch(old.producer_id, 2)
        assert driver.end(old).error is ErrorCode.PRODUCER_FENCED
        assert driver.add(old).error is ErrorCode.PRODUCER_FENCED

    @pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001, 1 << 31])
    def test_a_timeout_out_of_range(self, timeout_ms: int) -> None:
        driver, _ = in_state(TransactionState.EMPTY)
        before = remember(driver)
        assert driver.init(timeout_ms=timeout_ms).error is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert remember(driver) == before
        assert driver.init(timeout_ms=timeout_ms, name="x").error is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert driver.shard.get("x") is None

    @pytest.mark.parametrize("state", sorted(AT_REST))
    def test_a_producer_may_raise_its_own_epoch(self, state: TransactionState) -> None:
        driver, producer = in_state(state)
        raised = driver.init(producer).answer
        assert raised == ProducerIdAndEpoch(producer.producer_id, producer.epoch + 1)
        assert driver.init(producer).answer == raised, "a retry"
        assert driver.init(raised).answer.epoch == raised.epoch + 1

    def test_a_producer_that_was_replaced_may_not(self) -> None:
        driver, old = in_state(TransactionState.EMPTY)
        driver.init()
        before = remember(driver)
        assert driver.init(old).error is ErrorCode.PRODUCER_FENCED
        assert driver.init(ProducerIdAndEpoch(STRANGER, 0)).error is ErrorCode.PRODUCER_FENCED
        assert remember(driver) == before

    def test_a_producer_that_was_replaced_cannot_abort_its_successor(self) -> None:
        driver, old = in_state(TransactionState.EMPTY)
        new = driver.init().answer
        driver.add(new)
        before = remember(driver)
        assert driver.init(old).error is ErrorCode.PRODUCER_FENCED
        assert remember(driver) == before
        assert driver.init(new).error is ErrorCode.CONCURRENT_TRANSACTIONS, "its own it may"
        assert driver.state is TransactionState.PREPARE_ABORT

    def test_an_expected_producer_of_an_unknown_id_is_new(self) -> None:
        driver = Driver()
        assert driver.init(ProducerIdAndEpoch(STRANGER, 5)).answer == ProducerIdAndEpoch(1001, 0)

    def test_without_a_producer_id_nothing_is_left(self) -> None:
        driver = Driver()
        driver.refuses_ids = True
        assert driver.init().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (driver.shard.get(ID), driver.log) == (None, [])
        driver.refuses_ids = False
        assert driver.init().answer.epoch == 0

    def test_two_at_the_same_time(self) -> None:
        driver = Driver()
        driver.holds_writes = True
        first = driver.init()
        assert driver.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
        assert driver.shard.get(ID) is None, "nothing counts before it is written"
        driver.commit_held()
        assert first.answer.epoch == 0

    def test_a_write_that_fails_leaves_nothing(self) -> None:
        driver = Driver()
        driver.holds_writes = True
        first = driver.init()
        driver.refuse_held(ErrorCode.NOT_COORDINATOR)
        assert first.error is ErrorCode.NOT_COORDINATOR
        assert driver.shard.get(ID) is None


class TestEpochsRunOut:
    def at_epoch(
        self, epoch: int, state: TransactionState = TransactionState.EMPTY
    ) -> tuple[Driver, ProducerIdAndEpoch]:
        driver, producer = in_state(TransactionState.EMPTY)
        entry = driver.shard._entries[ID]
        entry.transaction = entry.transaction._replace(epoch=epoch)
        producer = ProducerIdAndEpoch(producer.producer_id, epoch)
        if state is TransactionState.ONGOING:
            driver.add(producer, version=2)
        return driver, producer

    def test_then_init_gives_a_new_id(self) -> None:
        driver, producer = self.at_epoch(EPOCH_MAX - 1)
        renewed = driver.init().answer
        assert renewed.epoch == 0
        assert renewed.producer_id != producer.producer_id

    def test_a_producer_that_did_not_hear_of_it_may_ask_again(self) -> None:
        driver, producer = self.at_epoch(EPOCH_MAX - 1)
        renewed = driver.init(producer).answer
        assert driver.init(producer).answer == renewed

    def test_one_before_it_is_raised(self) -> None:
        driver, producer = self.at_epoch(EPOCH_MAX - 2)
        assert driver.init().answer == ProducerIdAndEpoch(producer.producer_id, EPOCH_MAX - 1)

    def test_the_last_epoch_can_be_fenced(self) -> None:
        driver, producer = self.at_epoch(EPOCH_MAX - 1, TransactionState.ONGOING)
        driver.init()
        assert driver.write_markers()[0].epoch == EPOCH_MAX
        assert driver.init().answer.producer_id != producer.producer_id

    def test_the_end_of_a_transaction_gives_a_new_id(self) -> None:
        driver, producer = self.at_epoch(EPOCH_MAX - 1, TransactionState.ONGOING)
        following = driver.end(producer, version=2).answer
        assert following.epoch == 0
        assert following.producer_id != producer.producer_id
        sent = driver.write_markers()
        assert [(each.producer_id, each.epoch) for each in sent] == [(producer.producer_id, EPOCH_MAX)]
        assert driver.end(producer, version=2).answer == following, "a retry"
        assert driver.add(following, version=2).answer is None
        assert driver.restarted().transaction()[:8] == driver.transaction()[:8]

    def test_no_id_no_end(self) -> None:
        driver, producer = self.at_epoch(EPOCH_MAX - 1, TransactionState.ONGOING)
        before = remember(driver)
        driver.refuses_ids = True
        assert driver.end(producer, version=2).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert remember(driver) == before


class TestAdd:
    @pytest.mark.parametrize("state", sorted(AT_REST | {TransactionState.ONGOING}))
    def test_begins_or_goes_on(self, state: TransactionState) -> None:
        driver, producer = in_state(state)
        assert driver.add(producer, P2).answer is None
        assert driver.state is TransactionState.ONGOING
        expected = {P0, P1, P2} if state is TransactionState.ONGOING else {P2}
        assert driver.transaction().partitions == expected

    def test_what_is_there_already_is_not_written_again(self) -> None:
        driver, producer = in_state(TransactionState.ONGOING)
        before = remember(driver)
        assert driver.add(producer, P1).answer is None
        assert remember(driver) == before

    def test_the_start_is_that_of_the_first_partition(self) -> None:
        driver, producer = in_state(TransactionState.EMPTY)
        driver.pass_ms(500)
        driver.add(producer, P0)
        started_ms = driver.wall_ms
        driver.pass_ms(500)
        driver.add(producer, P1)
        assert driver.transaction().started_ms == started_ms
        assert driver.transaction().updated_ms == started_ms + 500

    @pytest.mark.parametrize("state", IN_THE_LOG)
    def test_who_is_not_the_producer(self, state: TransactionState) -> None:
        driver, producer = in_state(state)
        before = remember(driver)
        stranger = ProducerIdAndEpoch(STRANGER, producer.epoch)
        assert driver.add(stranger).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        for epoch in (producer.epoch - 1, producer.epoch + 1):
            older = ProducerIdAndEpoch(producer.producer_id, epoch)
            assert driver.add(older, P2).error is ErrorCode.PRODUCER_FENCED
        assert remember(driver) == before

    def test_an_unknown_id(self) -> None:
        assert Driver().add(ProducerIdAndEpoch(1, 0)).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING

    @pytest.mark.parametrize("state", sorted(PREPARED))
    def test_right_behind_the_end_it_waits_for_the_markers(self, state: TransactionState) -> None:
        driver, producer = in_state(state)
        added = driver.add(producer, P2)
        assert added.answers == []
        driver.write_markers()
        assert added.answer is None
        assert (driver.state, driver.transaction().partitions) == (TransactionState.ONGOING, frozenset({P2}))

    @pytest.mark.parametrize("state", sorted(PREPARED))
    def test_but_not_for_ever(self, state: TransactionState) -> None:
        driver, producer = in_state(state)
        before = remember(driver)
        added = driver.add(producer, P2)
        driver.pass_ms(PATIENCE_MS - 1)
        assert added.answers == []
        driver.pass_ms(1)
        assert added.error is ErrorCode.CONCURRENT_TRANSACTIONS
        assert remember(driver) == before
        driver.write_markers()
        assert driver.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)

    def test_partitions_that_are_added_at_the_same_time_go_one_by_one(self) -> None:
        driver, producer = in_state(TransactionState.EMPTY)
        driver.holds_writes = True
        waiters = [driver.add(producer, partition, version=2) for partition in (P0, P1, P2)]
        while driver.held:
            assert len(driver.held) == 1
            driver.commit_held()
        assert [waiter.answer for waiter in waiters] == [None] * 3
        assert driver.transaction().partitions == {P0, P1, P2}

    def test_who_waits_is_sent_away_when_another_takes_over(self) -> None:
        driver, producer = in_state(TransactionState.PREPARE_COMMIT)
        added = driver.add(producer, P2)
        driver.perform(driver.shard.stop())
        assert added.error is ErrorCode.NOT_COORDINATOR

    def test_who_was_sent_away_hears_nothing_more(self) -> None:
        driver, producer = in_state(TransactionState.ONGOING)
        driver.holds_writes = True
        driver.add(producer, P2)
        behind = driver.add(producer, P1)
        driver.perform(driver.shard.stop())
        driver.refuse_held(ErrorCode.NOT_COORDINATOR)
        assert behind.error is ErrorCode.NOT_COORDINATOR

    def test_a_write_that_fails_changes_nothing(self) -> None:
        driver, producer = in_state(TransactionState.ONGOING)
        before = remember(driver)
        driver.holds_writes = True
        added, behind = driver.add(producer, P2), driver.add(producer, P1)
        driver.refuse_held()
        assert added.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert behind.answer is None
        assert remember(driver) == before

    def test_a_record_too_large_is_no_reason_to_try_again(self) -> None:
        driver, producer = in_state(TransactionState.EMPTY)
        driver.holds_writes = True
        added = driver.add(producer, P2)
        driver.refuse_held(ErrorCode.MESSAGE_TOO_LARGE)
        assert added.error is ErrorCode.UNKNOWN_SERVER_ERROR


class TestVerify:
    def verify(self, driver: Driver, producer: ProducerIdAndEpoch) -> object:
        return driver.shard.verify_partitions(ID, producer, frozenset({P0, P2}))

    def test_each_partition_for_itself(self) -> None:
        driver, producer = in_state(TransactionState.ONGOING)
        expected = {P0: ErrorCode.NONE, P2: ErrorCode.TRANSACTION_ABORTABLE}
        assert self.verify(driver, producer) == expected

    @pytest.mark.parametrize("state", sorted(AT_REST))
    def test_outside_of_a_transaction(self, state: TransactionState) -> None:
        driver, producer = in_state(state)
        found = driver.shard.verify_partitions(ID, producer, frozenset({P0}))
        assert found == {P0: ErrorCode.TRANSACTION_ABORTABLE}

    @pytest.mark.parametrize(
        ("state", "producer_id", "epoch", "error"),
        [
            (TransactionState.ONGOING, 1, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
            (TransactionState.ONGOING, 1001, 1, ErrorCode.PRODUCER_FENCED),
            (TransactionState.PREPARE_COMMIT, 1001, 0, ErrorCode.CONCURRENT_TRANSACTIONS),
            (TransactionState.PREPARE_ABORT, 1001, 0, ErrorCode.CONCURRENT_TRANSACTIONS),
        ],
    )
    def test_refusals(self, state: TransactionState, producer_id: int, epoch: int, error: ErrorCode) -> None:
        driver, _ = in_state(state)
        before = remember(driver)
        waiter = driver.ask(lambda waiter, now: self.verify(driver, ProducerIdAndEpoch(producer_id, epoch)))  # type: ignore[arg-type, return-value]
        assert waiter.error is error
        assert remember(driver) == before


class TestEnd:
    @pytest.mark.parametrize("commits", [True, False])
    @pytest.mark.parametrize("version", [0, 2])
    def test_from_the_decision_to_the_last_marker(self, commits: bool, version: int) -> None:
        driver, producer = in_state(TransactionState.ONGOING, version=version)
        following = driver.end(producer, commits=commits, version=version).answer
        assert following == ProducerIdAndEpoch(producer.producer_id, 1 if version == 2 else 0)
        decided = driver.state
        (sent,) = driver.write_markers()
        assert decided is (TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT)
        assert (sent.producer_id, sent.epoch, sent.commits) == (*following, commits)
        assert sent.partitions == {P0, P1}
        assert driver.state is (
            TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
        )
        assert driver.transaction().partitions == frozenset()
        assert driver.add(following, version=version).answer is None

    @pytest.mark.parametrize("state", IN_THE_LOG)
    @pytest.mark.parametrize("commits", [True, False])
    def test_every_state_of_a_client_whose_epoch_stays(self, state: TransactionState, commits: bool) -> None:
        driver, producer = in_state(state)
        before = remember(driver)
        ended = driver.end(producer, commits=commits)
        outcome = ENDS.get((state, commits))
        if outcome is End.BEGINS:
            assert ended.answer == producer
            assert driver.state in PREPARED
            return
        expected = {
            End.DONE: ErrorCode.NONE,
            End.WAIT: ErrorCode.CONCURRENT_TRANSACTIONS,
            None: ErrorCode.INVALID_TXN_STATE,
        }[outcome]
        assert ended.error is expected
        assert remember(driver) == before

    @pytest.mark.parametrize("state", IN_THE_LOG)
    @pytest.mark.parametrize("commits", [True, False])
    @pytest.mark.parametrize("retries", [True, False])
    @pytest.mark.parametrize("restarts", [True, False])
    def test_every_state_of_a_client_with_an_epoch_per_transaction(
        self, state: TransactionState, commits: bool, retries: bool, restarts: bool
    ) -> None:
        driver, producer = in_state(state, version=2)
        if restarts:
            driver = driver.restarted()
        if retries:
            producer = ProducerIdAndEpoch(producer.producer_id, producer.epoch - 1)
        before = remember(driver)
        ended = driver.end(producer, commits=commits, version=2)
        outcome = ENDS_WITH_EPOCH.get((state, commits, retries))
        if outcome is End.BEGINS:
            assert ended.answer == ProducerIdAndEpoch(producer.producer_id, producer.epoch + 1)
            return
        if outcome is End.DONE:
            assert ended.answer == ProducerIdAndEpoch(producer.producer_id, producer.epoch + 1)
        elif outcome is End.WAIT or (state in PREPARED and not retries):
            assert ended.error is ErrorCode.CONCURRENT_TRANSACTIONS
        elif state in (TransactionState.EMPTY, TransactionState.ONGOING) and retries:
            assert ended.error is ErrorCode.PRODUCER_FENCED
        else:
            assert ended.error is ErrorCode.INVALID_TXN_STATE
        assert remember(driver) == before

    @pytest.mark.parametrize("state", sorted(AT_REST))
    def test_an_abort_of_nothing_needs_no_markers(self, state: TransactionState) -> None:
        driver, producer = in_state(state, version=2)
        driver.sent.clear()
        following = driver.end(producer, commits=False, version=2).answer
        assert following.epoch == producer.epoch + 1
        assert (driver.state, driver.sent) == (TransactionState.COMPLETE_ABORT, [])

    @pytest.mark.parametrize("version", [0, 2])
    def test_who_is_not_the_producer(self, version: int) -> None:
        driver, producer = in_state(TransactionState.ONGOING, version=version)
        before = remember(driver)
        stranger = ProducerIdAndEpoch(STRANGER, producer.epoch)
        assert driver.end(stranger, version=version).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        newer = ProducerIdAndEpoch(producer.producer_id, producer.epoch + 1)
        assert driver.end(newer, version=version).error is ErrorCode.PRODUCER_FENCED
        assert driver.end(producer, version=version, name="x").error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert remember(driver) == before

    def test_nobody_hears_of_a_decision_that_is_not_written(self) -> None:
        driver, producer = in_state(TransactionState.ONGOING)
        driver.holds_writes = True
        ended = driver.end(producer)
        assert (ended.answers, driver.sent, driver.state) == ([], [], TransactionState.ONGOING)
        assert driver.end(producer).error is ErrorCode.CONCURRENT_TRANSACTIONS
        driver.refuse_held()
        assert ended.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert driver.sent == []
        again = driver.end(producer, commits=False)
        driver.commit_held()
        assert again.answer == producer
        assert not driver.sent[0].commits

    def test_a_client_cannot_mix_versions_to_commit_twice(self) -> None:
        driver, producer = in_state(TransactionState.COMPLETE_COMMIT, version=2)
        before = remember(driver)
        assert driver.end(producer, version=2).error is ErrorCode.INVALID_TXN_STATE
        assert remember(driver) == before


class TestMarkers:
    def test_markers_of_another_end_count_for_nothing(self) -> None:
        driver, producer = in_state(TransactionState.PREPARE_COMMIT)
        sent = driver.sent[0]
        for other in (
            sent._replace(epoch=5),
            sent._replace(producer_id=1),
            sent._replace(transactional_id="x"),
        ):
            driver.perform(driver.shard.markers_written(other, driver.now))
            assert driver.state is TransactionState.PREPARE_COMMIT
        driver.write_markers()
        driver.add(producer)
        driver.perform(driver.shard.markers_written(sent, driver.now))
        assert driver.state is TransactionState.ONGOING

    def last_written(self, driver: Driver) -> TransactionState:
        record = decode(*driver.log[-1])
        assert record is not None
        assert record.transaction is not None
        return record.transaction.state

    def test_completion_is_written_when_nothing_else_is(self) -> None:
        driver, _ = in_state(TransactionState.PREPARE_COMMIT)
        driver.write_markers()
        assert driver.state is TransactionState.COMPLETE_COMMIT
        assert self.last_written(driver) is TransactionState.PREPARE_COMMIT
        driver.pass_ms(COMPLETION_DELAY_MS - 1)
        assert self.last_written(driver) is TransactionState.PREPARE_COMMIT
        driver.pass_ms(1)
        assert self.last_written(driver) is TransactionState.COMPLETE_COMMIT
        count = len(driver.log)
        driver.pass_ms(1000)
        assert len(driver.log) == count

    def test_the_next_transaction_says_the_same(self) -> None:
        driver, producer = in_state(TransactionState.PREPARE_COMMIT)
        driver.write_markers()
        driver.add(producer)
        driver.pass_ms(1000)
        records = [decode(*each) for each in driver.log]
        states = [record.transaction.state for record in records if record and record.transaction]
        assert states == [
            TransactionState.EMPTY,
            TransactionState.ONGOING,
            TransactionState.PREPARE_COMMIT,
            TransactionState.ONGOING,
        ]
        assert driver.restarted().sent == []

    def test_completion_is_tried_until_it_is_written(self) -> None:
        driver, _ = in_state(TransactionState.PREPARE_COMMIT)
        driver.holds_writes = True
        driver.write_markers()
        driver.pass_ms(COMPLETION_DELAY_MS)
        for _ in range(3):
            driver.refuse_held()
            assert driver.held == []
            driver.pass_ms(1000)
        driver.commit_held()
        assert self.last_written(driver) is TransactionState.COMPLETE_COMMIT

    def test_completion_is_not_forgotten_when_the_next_transaction_cannot_begin(self) -> None:
        driver, producer = in_state(TransactionState.PREPARE_COMMIT)
        driver.write_markers()
        driver.holds_writes = True
        driver.add(producer)
        driver.pass_ms(COMPLETION_DELAY_MS)
        driver.refuse_held()
        driver.pass_ms(1000)
        driver.commit_held()
        assert self.last_written(driver) is TransactionState.COMPLETE_COMMIT

    def test_a_coordinator_that_does_not_know_it_is_complete_ends_it_again(self) -> None:
        driver, producer = in_state(TransactionState.PREPARE_COMMIT)
        (sent,) = driver.write_markers()
        other = driver.restarted()
        assert other.sent == [sent]
        added = other.add(producer)
        assert added.answers == [], "nothing new begins before that"
        other.write_markers()
        assert added.answer is None

    @pytest.mark.parametrize("state", sorted(PREPARED))
    def test_the_next_coordinator_sends_them_again(self, state: TransactionState) -> None:
        driver, producer = in_state(state)
        sent = driver.sent
        other = driver.restarted()
        assert other.sent == sent
        other.write_markers()
        assert other.state in BEFORE[TransactionState.ONGOING]
        assert other.add(producer).answer is None

    def test_an_empty_abort_is_completed_by_the_next_coordinator(self) -> None:
        driver, producer = in_state(TransactionState.EMPTY)
        driver.holds_writes = True
        driver.end(producer, commits=False, version=2)
        driver.commit_held()
        assert self.last_written(driver) is TransactionState.PREPARE_ABORT
        other = driver.restarted()
        assert (other.state, other.sent) == (TransactionState.COMPLETE_ABORT, [])


class TestTimeouts:
    def test_a_transaction_that_takes_too_long_is_aborted(self) -> None:
        driver = Driver()
        producer = driver.init(timeout_ms=5000).answer
        driver.add(producer)
        assert driver.state_after(4999) is TransactionState.ONGOING
        assert driver.state_after(1) is TransactionState.PREPARE_ABORT
        assert driver.write_markers()[0].epoch == producer.epoch + 1
        for version in (0, 2):
            assert driver.end(producer, version=version).error is ErrorCode.PRODUCER_FENCED
            aborted = driver.end(producer, commits=False, version=version)
            assert aborted.error is ErrorCode.PRODUCER_FENCED
        assert driver.init().answer.epoch == producer.epoch + 2

    def test_each_transaction_has_its_own_time(self) -> None:
        driver = Driver()
        producer = driver.init(timeout_ms=5000).answer
        for _ in range(10):
            driver.add(producer)
            driver.pass_ms(4000)
            driver.end(producer)
            driver.write_markers()
            assert driver.state is TransactionState.COMPLETE_COMMIT
        driver.add(producer)
        assert driver.state_after(4999) is TransactionState.ONGOING
        assert driver.state_after(1) is TransactionState.PREPARE_ABORT

    def test_the_agenda_does_not_grow_with_transactions(self) -> None:
        driver, producer = in_state(TransactionState.EMPTY)
        for _ in range(100):
            driver.add(producer)
            driver.end(producer)
            driver.write_markers()
        assert len(driver.shard._agenda._timers) <= 3

    def test_a_shorter_timeout_of_the_next_producer_counts(self) -> None:
        driver = Driver()
        producer = driver.init(timeout_ms=900_000).answer
        driver.add(producer)
        driver.end(producer)
        driver.write_markers()
        driver.add(driver.init(timeout_ms=2000).answer)
        assert driver.state_after(1999) is TransactionState.ONGOING
        assert driver.state_after(1) is TransactionState.PREPARE_ABORT

    def test_a_longer_one_counts_as_well(self) -> None:
        driver = Driver()
        for timeout_ms in (5000, 2000, 60_000):
            producer = driver.init(timeout_ms=timeout_ms).answer
            driver.add(producer)
            if timeout_ms != 60_000:
                driver.end(producer)
                driver.write_markers()
        assert driver.state_after(59_999) is TransactionState.ONGOING
        assert driver.state_after(1) is TransactionState.PREPARE_ABORT
        assert not driver.shard._entries[ID].busy

    def test_the_next_coordinator_goes_on_counting(self) -> None:
        driver = Driver()
        driver.add(driver.init(timeout_ms=5000).answer)
        other = driver.restarted(after_ms=3000)
        assert other.state_after(1999) is TransactionState.ONGOING
        assert other.state_after(1) is TransactionState.PREPARE_ABORT
        late = driver.restarted(after_ms=10_000)
        late.pass_ms(0)
        assert late.state is TransactionState.PREPARE_ABORT

    def test_a_jump_of_the_wall_clock_aborts_nothing(self) -> None:
        driver, _ = in_state(TransactionState.ONGOING)
        driver.wall_ms += 10_000_000
        assert driver.state_after(1000) is TransactionState.ONGOING
        driver.wall_ms -= 50_000_000
        assert driver.state_after(60_000) is TransactionState.PREPARE_ABORT

    def test_an_abort_that_cannot_be_written_is_tried_again(self) -> None:
        driver, _ = in_state(TransactionState.ONGOING)
        driver.holds_writes = True
        driver.pass_ms(60_000)
        epoch = driver.transaction().epoch
        driver.refuse_held()
        driver.pass_ms(1000)
        driver.commit_held()
        assert (driver.state, driver.transaction().epoch) == (TransactionState.PREPARE_ABORT, epoch + 1)

    def test_a_decision_under_way_is_not_overtaken(self) -> None:
        driver, producer = in_state(TransactionState.ONGOING)
        driver.holds_writes = True
        ended = driver.end(producer)
        driver.pass_ms(60_000)
        driver.commit_held()
        assert ended.answer == producer
        assert driver.state is TransactionState.PREPARE_COMMIT
        driver.pass_ms(60_000)
        assert driver.state is TransactionState.PREPARE_COMMIT


class TestExpiry:
    DAY_MS = 86_400_000

    @pytest.mark.parametrize("state", sorted(AT_REST))
    def test_an_id_that_nobody_uses_is_forgotten(self, state: TransactionState) -> None:
        driver, producer = in_state(state)
        driver.pass_ms(7 * self.DAY_MS - 3_600_000)
        assert driver.shard.get(ID) is not None
        driver.pass_ms(3_600_000 * 2)
        assert driver.shard.get(ID) is None
        assert driver.log[-1][1] is None
        assert driver.restarted().shard.get(ID) is None
        assert driver.add(producer).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING

    def test_one_that_is_used_stays(self) -> None:
        driver, producer = in_state(TransactionState.EMPTY)
        for _ in range(10):
            driver.pass_ms(6 * self.DAY_MS)
            producer = driver.init(producer).answer
        assert driver.shard.get(ID) is not None

    @pytest.mark.parametrize("state", sorted(PREPARED))
    def test_one_with_markers_on_their_way_stays(self, state: TransactionState) -> None:
        driver, _ = in_state(state)
        driver.pass_ms(30 * self.DAY_MS)
        assert driver.state is state

    def test_while_it_is_forgotten_it_is_busy(self) -> None:
        driver, producer = in_state(TransactionState.EMPTY)
        driver.holds_writes = True
        driver.pass_ms(8 * self.DAY_MS)
        assert driver.shard.get(ID) is None
        assert driver.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
        added = driver.add(producer)
        assert added.answers == []
        driver.refuse_held()
        driver.commit_held()
        assert added.answer is None, "the id stays, and goes on"
