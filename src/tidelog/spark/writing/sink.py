"""Who writes to a sink, and the end of everything that others left open.

How a micro-batch is written:

1. The first task of a *run* (one start of a query; Spark names it) takes the sink over: it ends the run
   before, commits what that run had decided, fences everything else it left open, and writes the name of its
   own run into the ledger (:mod:`tidelog.spark.writing.ledger`).
2. Each task writes its rows in a transaction of its own and leaves it open. ``read_committed`` readers see
   nothing of it.
3. When all tasks are done, the driver checks that all these transactions are open, and writes the batch id
   and the list of transactions into the ledger. **This is the decision**: it is there or it is not. A run
   that was replaced meanwhile cannot make it.
4. The driver commits the transactions of the list and fences whatever else is open: losers of speculation,
   failed attempts.

After a failure or a stop Spark asks the driver to abort: the run is marked as ended, what it decided is
committed, and the rest is fenced.

Why nothing is missed: a task first takes its name (InitProducerId) and then reads the ledger. Before names
are fenced, the run is marked as ended there, or the batch as decided; then the brokers are asked for the
names. So either the name is in the list, or the task sees the mark and writes nothing.

What a crash leaves behind, and what the next run finds:

- before 3: open transactions and no decision. They are fenced, and the batch is written again. Nothing was
  visible.
- after 3: the decision. The transactions of the list are committed, and the rows of the batch are dropped. So
  nothing depends on the rows being the same, or in the same tasks, as the first time.
- after 3, and then down for longer than ``transaction.timeout.ms``: the coordinator may have aborted a
  transaction of the list. Its task writes its rows again: only here they have to be the same rows as before,
  and the same number of tasks is required.
"""

import re
import time
from collections.abc import Sequence

from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError
from tidelog.spark.writing.coordinator import Coordinators
from tidelog.spark.writing.ledger import CHANGE_TIMEOUT_MS, Decision, Ledger, LedgerState
from tidelog.spark.writing.settings import WriterSettings
from tidelog.spark.writing.sweeping import end_all, open_transactions
from tidelog.spark.writing.transactions import Participant, Transactions

PREFIX = "tidelog-sink-"
_SINK = re.compile(re.escape(PREFIX) + r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TURN_S = 0.02  # tasks that start together take the sink over one after another
_TURNS = 25


class RunEnded(ClientError):
    """Another run took over, or this one was stopped."""


def sink_of_query(query_id: str) -> str:
    return PREFIX + query_id


class Sink:
    """The sink of one query. Not thread-safe."""

    def __init__(self, cluster: Cluster, settings: WriterSettings, name: str) -> None:
        self.name = name
        self._cluster = cluster
        self._driver = settings.driver
        coordinators = Coordinators(cluster)
        self.transactions = Transactions(cluster, coordinators)
        timeout_ms = min(settings.transaction_timeout_ms or CHANGE_TIMEOUT_MS, CHANGE_TIMEOUT_MS)
        self.ledger = Ledger(cluster, coordinators, name, timeout_ms)

    # -- the beginning of a run ------------------------------------------------------------

    def take_over(self, run: str, topic: str, turn: int = 0) -> LedgerState:
        """The ledger, as soon as it says that this run may write; ``turn`` lets tasks that start together
        not get in each other's way.
        """
        state = self.ledger.read()
        if state.run == run:
            return state
        self._cluster.topics([topic])  # its absence has an error of its own
        time.sleep(min(turn, _TURNS) * _TURN_S)
        patience = self._cluster.patience()
        while (state := self.ledger.read()).run != run:
            if run in state.ended:
                raise RunEnded(_replaced(state.run))
            if state.run is not None:
                self.ledger.change(state, state.without(state.run), topic)
            elif not self.sweep(state) or not self.ledger.change(
                state, state.owned_by(run, self._driver), topic
            ):
                patience.pause(f"others change the ledger of {self.name}")
        return state

    def check(self, run: str, batch_id: int | None) -> None:
        """Raises if this run, or another attempt at this task of the batch, is no longer wanted. To be called
        with the name of the transaction in hand and nothing in it. ``batch_id`` is None if the batch was
        decided before and this task's part of it was lost.
        """
        state = self.ledger.read()
        if state.run != run:
            raise RunEnded(_replaced(state.run))
        if batch_id is not None and state.is_decided(batch_id):
            raise RunEnded(f"Batch {batch_id} was written without this attempt of a task.")

    # -- decisions -------------------------------------------------------------------------

    def decide(self, run: str, decision: Decision, fresh: Sequence[Participant], topic: str) -> None:
        """Write it into the ledger; ``fresh``: the transactions that are open."""
        patience = self._cluster.patience()
        while (state := self.ledger.read()).decision != decision:
            if state.run != run:
                raise RunEnded(_replaced(state.run))
            self.transactions.are_open(self.name, fresh)
            if not self.ledger.change(state, state.with_decision(decision), topic):
                patience.pause(f"others change the ledger of {self.name}")

    # -- the end ---------------------------------------------------------------------------

    def end_run(self, run: str) -> None:
        """It writes no more; everything it left open is ended."""
        patience = self._cluster.patience()
        while (state := self.ledger.read()).topic is not None and state.run in (run, None):
            if run in state.ended:
                if self.sweep(state):
                    return
            elif self.ledger.change(state, state.without(run), state.topic):
                continue
            patience.pause(f"others change the ledger of {self.name}")

    def end_batch(self, run: str) -> None:
        """End what is open after all transactions of the batch were committed."""
        while (state := self.ledger.read()).run == run and not self.sweep(state):
            pass

    def sweep(self, state: LedgerState) -> bool:
        """End all open transactions: those of the decision are committed, others fenced. To be called when
        no task is to write. False: the ledger changed meanwhile, so they may be another run's.
        """
        found = open_transactions(self.transactions, f"{self.name}-")
        if self.ledger.read().version != state.version:
            return False
        participants = () if state.decision is None else state.decision.participants
        end_all(self.transactions, found, {one.name(self.name): one.producer for one in participants})
        return True


def _replaced(by: str | None) -> str:
    taken = f"the run {by} of the query took over" if by is not None else "this run of the query was stopped"
    return f"Nothing more is written: {taken}. Only one query at a time may write with a checkpoint."


def run_of_driver(cluster: Cluster, settings: WriterSettings) -> tuple[Sink, str] | None:
    """The sink and the run of the query that the driver of these settings runs, if a task of it took the sink
    over. The driver is not told when no task of a batch was finished.
    """
    if not settings.driver:
        return None
    listed = Transactions(cluster, Coordinators(cluster)).listed(PREFIX)
    for name in sorted({one.name for one in listed if _SINK.fullmatch(one.name)}):
        sink = Sink(cluster, settings, name)
        state = sink.ledger.read()
        if state.run is not None and state.driver == settings.driver:
            return sink, state.run
    return None
