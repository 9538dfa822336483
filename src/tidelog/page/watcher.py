"""Asks the brokers again and again, keeps what they say, and tells subscribers what changed.

One task asks for the metadata, and each broker has tasks of its own, with connections of their own: what a
frozen broker does not answer holds up no other. Questions block in threads. The more an answer costs, the
rarer the question: a cluster with many partitions is not burdened by being watched.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from tidelog.client.messages import TopicPartition
from tidelog.page import story
from tidelog.page.asking import cluster as cluster_questions
from tidelog.page.asking import settings
from tidelog.page.asking.link import Address, Link
from tidelog.page.broker_watch import BrokerWatch
from tidelog.page.facts import NO_LEADER, ClusterSeen, Facts, Pulse, Quorum, Settings, with_absent
from tidelog.page.failover import Failover
from tidelog.page.pace import BURST_PAUSE_S, BURST_S, PULSE_S, Pace, now_ms, words_of
from tidelog.page.past import Told
from tidelog.page.past_watch import Endpoint, PastWatch
from tidelog.page.rates import Histories
from tidelog.page.state import Builder, State, changes, state_of
from tidelog.planner.terms import DECIDING
from tidelog.types import NO_BROKER

logger = logging.getLogger(__name__)

THREADS = 64
# What single views ask for has threads of its own: many browsers do not hold up the questions above.
VIEW_THREADS = 16
VIEW_QUESTIONS_MAX = 64
CLUSTER_S = 0.5
CLUSTER_TIMEOUT_S = 2.0
SETTINGS_S = 5.0
SETTINGS_TIMEOUT_S = 10.0
TOPICS_PER_QUESTION = 200
PUBLISH_S = 0.1
EVENTS_MAX = 2000

P = ParamSpec("P")
T = TypeVar("T")
Subscriber = Callable[[dict[str, Any]], None]


class Watcher:
    def __init__(self, bootstrap: Iterable[Address]) -> None:
        self.bootstrap = tuple(bootstrap)
        self.facts = Facts()
        self.state: State = {}
        self.histories = Histories()
        self.events: deque[dict[str, Any]] = deque(maxlen=EVENTS_MAX)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="ask")
        self._view_threads = ThreadPoolExecutor(VIEW_THREADS, thread_name_prefix="view")
        self._view_questions = 0
        self._subscribers: set[Subscriber] = set()
        self._builder = Builder()
        self._brokers: dict[int, BrokerWatch] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._burst_until_s = 0.0
        self._doubted: Address | None = None  # the one that accepted a connection and could not tell
        self._failover: Failover | None = None
        self._fresh_events: list[dict[str, Any]] = []
        self._next_event = 1
        self._dirty = asyncio.Event()
        self._settings_wanted = asyncio.Event()
        self._hurry = asyncio.Event()  # A broker stopped answering: the metadata are asked for at once.

    # -- life ------------------------------------------------------------------------------

    def start(self) -> None:
        self.spawn(self._watch_cluster())
        self.spawn(self._watch_settings())
        self.spawn(self._publish())
        self.spawn(self._sample())
        self.spawn(PastWatch(self).run())

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for threads in (self._threads, self._view_threads):
            threads.shutdown(wait=False, cancel_futures=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a part of the page has failed", exc_info=error)

    async def in_thread(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        work = partial(question, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def for_view(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In a thread, for a request that waits. ConnectionError: too many do."""
        if self._view_questions >= VIEW_QUESTIONS_MAX:
            raise ConnectionError("the page has too many questions to answer at once; try again")
        self._view_questions += 1
        try:
            work = partial(question, *args, **kwargs)
            return await asyncio.get_running_loop().run_in_executor(self._view_threads, work)
        finally:
            self._view_questions -= 1

    # -- subscribers -----------------------------------------------------------------------

    def subscribe(self, subscriber: Subscriber) -> None:
        """It gets every change from now on."""
        self._subscribers.add(subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.discard(subscriber)

    def everything(self) -> dict[str, Any]:
        return {
            "all": self.state,
            "events": list(self.events)[-500:],
            "history": self.histories.of(""),
        }

    # -- facts -----------------------------------------------------------------------------

    @property
    def in_burst(self) -> bool:
        return time.monotonic() < self._burst_until_s

    def changed(self) -> None:
        self._dirty.set()

    def tell(self, events: Iterable[story.Event]) -> None:
        for event in events:
            row = event.row(self._next_event, now_ms())
            self._next_event += 1
            self.events.append(row)
            self._fresh_events.append(row)
            self._dirty.set()

    def remember(self, told: list[Told]) -> None:
        """What happened before the page was started, oldest first. Their numbers are negative."""
        kept = told[max(len(told) - EVENTS_MAX + len(self.events), 0) :]
        rows = [each.event.row(number - len(kept), each.at_ms) for number, each in enumerate(kept)]
        if rows:
            self.events.extendleft(reversed(rows))
            self._send({"past": rows})

    def endpoints(self) -> list[Endpoint]:
        return [
            (broker, watch.address[0], watch.http_port)
            for broker, watch in sorted(self._brokers.items())
            if watch.http_port and broker not in self.facts.silent()
        ]

    def pulse(self, broker: int, responds: bool, reason: str = "", *, ended: bool = False) -> None:
        before = self.facts.pulses.get(broker)
        if before is not None and before[:2] == (responds, reason):
            return
        after = Pulse(responds, reason, now_ms(), ended)
        self.facts.pulses[broker] = after
        self.tell(story.pulse_changed(broker, before, after))
        self._show_at_once(broker)
        if not responds and (before is None or before.responds):
            self.facts.figures.pop(broker, None)
            self._burst_until_s = time.monotonic() + BURST_S
            self._hurry.set()
            if before is not None:
                self._failover = Failover(broker, now_ms(), self.facts.cluster)
        self.changed()

    def _show_at_once(self, broker: int) -> None:
        """Before anything is derived for its partitions, which takes a moment if there are ten thousand."""
        key, cluster = f"b/{broker}", self.facts.cluster
        if key not in self.state or cluster is None or broker not in cluster.brokers:
            return
        pulse = self.facts.pulses[broker]
        value = self.state[key] | state_of(cluster.brokers[broker], pulse)
        self.state = self.state | {key: value}
        self._send({"changes": {key: value}})

    def grown(self, broker: int, partitions: Iterable[TopicPartition]) -> None:
        if self._failover is not None:
            for partition in partitions:
                self._failover.grown(partition, broker, now_ms())

    def led_by(self, broker: int) -> list[TopicPartition]:
        cluster = self.facts.cluster
        topics = cluster.topics.items() if cluster is not None else ()
        return [
            (name, index)
            for name, topic in topics
            for index, each in enumerate(topic.partitions)
            if each.leader == broker
        ]

    # -- the metadata ----------------------------------------------------------------------

    async def _watch_cluster(self) -> None:
        link: Link | None = None
        pace = Pace()
        while True:
            begun_s = time.monotonic()
            link = link or await self._open_link()
            if link is None:
                self.changed()
                await asyncio.sleep(BURST_PAUSE_S if self.in_burst else PULSE_S)
                continue
            before = self.facts.cluster.quorum if self.facts.cluster is not None else Quorum()
            try:
                seen = await self.in_thread(cluster_questions.look, link, before)
            except OSError as error:
                logger.debug("%s:%s does not describe the cluster: %s", *link.address, error)
                self._failed(link.address, error)
                self._doubted = link.address
                link.close()
                link = None
                await asyncio.sleep(BURST_PAUSE_S)
                continue
            if seen.quorum.leader == NO_LEADER and (better := await self._open_better(link, seen.quorum)):
                link.close()
                link = better
                continue
            self._cluster_seen(seen)
            least_s = BURST_PAUSE_S if self.in_burst else CLUSTER_S
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), pace.pause_s(least_s, time.monotonic() - begun_s))
            self._hurry.clear()

    async def _open_link(self) -> Link | None:
        """To the first broker that accepts a connection and is not known to be silent."""
        for address in self._candidates():
            link = Link(address, CLUSTER_TIMEOUT_S)
            try:
                await self.in_thread(link.serves, 0, 0)
                return link
            except OSError as error:
                link.close()
                self._failed(address, error)
        return None

    async def _open_better(self, link: Link, known: Quorum) -> Link | None:
        """To a broker that knows of an active controller, because the one that was asked does not: it may be
        cut off, and would go on telling what it knew before.
        """
        for address in self._candidates():
            if address == link.address or known.epoch < 0:  # Without an epoch there are no such controllers.
                continue
            other = Link(address, CLUSTER_TIMEOUT_S)
            try:
                found = await self.in_thread(cluster_questions.quorum, other, known)
            except OSError:
                other.close()
                continue
            if found.leader != NO_LEADER and found.epoch >= known.epoch:
                return other
            other.close()
        return None

    def _failed(self, address: Address, error: OSError) -> None:
        """Before any broker has told what there is, people are told why."""
        if self.facts.cluster is None:
            self.facts.pulses[NO_BROKER] = Pulse(False, f"{address[0]}:{address[1]}: {words_of(error)}")
            self.changed()

    def _candidates(self) -> list[Address]:
        cluster, away = self.facts.cluster, self.facts.away()
        known = [] if cluster is None else list(cluster.brokers.values())
        there = [each.address for each in known if each.broker not in away]
        silent = {each.address for each in known if each.broker in away}
        found = dict.fromkeys([*there, *(each for each in self.bootstrap if each not in silent), *silent])
        # A broker that is cut off goes on to accept connections, and waits for a controller that it knows.
        return sorted(found, key=lambda each: each == self._doubted)

    def _cluster_seen(self, seen: ClusterSeen) -> None:
        before = self.facts.cluster
        seen = with_absent(seen, before.brokers if before is not None else {})
        if before is not None:
            # An unchanged topic is the same object: what is derived from it is still valid.
            topics = {
                name: before.topics[name] if before.topics.get(name) == topic else topic
                for name, topic in seen.topics.items()
            }
            seen = seen._replace(topics=topics)
            self.tell(story.cluster_changed(before, seen, self.facts.silent()))
        self.facts.pulses.pop(NO_BROKER, None)
        if before != seen:
            self.facts.cluster = seen
            self._forget_ends(before, seen)
            self.changed()
        if self._failover is not None:
            self._failover.cluster_seen(seen, now_ms())
        if before is None or before.topics.keys() != seen.topics.keys():
            self._settings_wanted.set()
        for broker, each in seen.brokers.items():
            watch = self._brokers.get(broker)
            if each.host and (watch is None or watch.address != each.address):
                if watch is not None:
                    watch.stop()
                self._brokers[broker] = BrokerWatch(self, broker, each.address)
        for broker in self._brokers.keys() - seen.brokers.keys():
            self._brokers.pop(broker).stop()
            self.facts.pulses.pop(broker, None)

    def _forget_ends(self, before: ClusterSeen | None, seen: ClusterSeen) -> None:
        """Of topics that are gone, and of those that another one of the same name has replaced."""
        for name, topic in before.topics.items() if before is not None else ():
            after = seen.topics.get(name)
            if after is None or after.topic_id != topic.topic_id:
                self.facts.ends.pop(name, None)

    # -- settings --------------------------------------------------------------------------

    async def _watch_settings(self) -> None:
        """Those that promises depend on, of all topics."""
        pace = Pace()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._settings_wanted.wait(), SETTINGS_S)
            self._settings_wanted.clear()
            cluster = self.facts.cluster
            if cluster is None:
                continue
            begun_s = time.monotonic()
            try:
                found = await self.ask_any(partial(_deciding, topics=tuple(cluster.topics)))
            except OSError:
                await asyncio.sleep(PULSE_S)
                self._settings_wanted.set()
                continue
            self._settings_seen(found)
            await asyncio.sleep(pace.pause_s(0.0, time.monotonic() - begun_s))

    def _settings_seen(self, found: dict[str, Settings]) -> None:
        known = self.facts.settings
        for topic, values in found.items():
            if topic in known and known[topic] != values:
                self.tell(story.settings_changed(topic, known[topic], values))
        kept = {topic: known[topic] if known.get(topic) == each else each for topic, each in found.items()}
        if kept != known:
            self.facts.settings = kept
            self.changed()

    async def ask_any(self, question: Callable[[Link], T], timeout_s: float = SETTINGS_TIMEOUT_S) -> T:
        """The answer of the first broker that gives one; OSError: there is none."""
        failure: OSError = ConnectionError("no broker is known")
        for address in self._candidates():
            try:
                return await self.in_thread(_once, address, timeout_s, question)
            except OSError as error:
                failure = error
        raise failure

    # -- telling ---------------------------------------------------------------------------

    async def _publish(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            begun_s = time.monotonic()
            self._collect_rates()
            state = self._builder.build(self.facts)
            if self._failover is not None:
                state["failover"] = self._failover.row()
            changed = changes(self.state, state)
            self.state = state
            events, self._fresh_events = self._fresh_events, []
            if changed or events:
                self._send({"changes": changed, "events": events})
            await asyncio.sleep(max(PUBLISH_S, (time.monotonic() - begun_s) * 4))

    def _collect_rates(self) -> None:
        sums: dict[str, float] = {}
        for broker, watch in self._brokers.items():
            pulse = self.facts.pulses.get(broker)
            for topic, rate in watch.meter.rates.items() if pulse is not None and pulse.responds else ():
                sums[topic] = sums.get(topic, 0.0) + rate
        self.facts.rates = sums

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.histories.add(self.facts.rates)
            self._send({"point": round(sum(self.facts.rates.values()), 1)})

    def _send(self, message: dict[str, Any]) -> None:
        for subscriber in list(self._subscribers):
            subscriber(message)


def _deciding(link: Link, topics: tuple[str, ...]) -> dict[str, Settings]:
    found: dict[str, Settings] = {}
    for start in range(0, len(topics), TOPICS_PER_QUESTION):
        found |= settings.of_topics(link, topics[start : start + TOPICS_PER_QUESTION], DECIDING)
    return found


def _once(address: Address, timeout_s: float, question: Callable[[Link], T]) -> T:
    with Link(address, timeout_s) as link:
        return question(link)
