"""Messages of a coordinator that are lost or late: revocations of partitions, and markers of transactions
with offsets.
"""

from typing import Any

from tidelog.broker.coordinators.internal_topics import CONSUMER_OFFSETS
from tidelog.broker.coordinators.markers import WRITE_TXN_MARKERS
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.sim.clients.client import Reply
from tidelog.sim.links import TIMEOUT_MS, LinkAsk
from tidelog.sim.stories.asking import ask, wait_for
from tidelog.sim.stories.group_owners import CONSUMER_GROUP_HEARTBEAT, GROUP, OFFSET_FETCH, GroupStory
from tidelog.sim.stories.late_markers import NAME, OldProducer
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import StoryFailed, expect

ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT = 25, 28
OLD_VERSION = 3  # of both, as an older client has them
BOTH = (0, 1)


class TwoPartitions(GroupStory):
    """Of a topic whose two partitions members share."""

    partitions = 2

    def _body(self, member: str, epoch: int, owned: tuple[int, ...] | None) -> Fields:
        """Only what has changed, as members send it after they have joined."""
        joins = epoch == 0
        topics = [{"topic_id": self.topic_id, "partitions": list(owned)}] if owned else []
        return {
            "group_id": GROUP, "member_id": member, "member_epoch": epoch, "instance_id": None,
            "rack_id": None, "rebalance_timeout": 30_000 if joins else -1,
            "subscribed_topic_names": [TOPIC] if joins else None, "subscribed_topic_regex": None,
            "server_assignor": None, "topic_partitions": None if owned is None else topics,
        }  # fmt: skip

    def unheard(self, member: str, at: str, epoch: int) -> None:
        """A heartbeat whose response is lost."""
        ask(self, self.machine(at).node_id, CONSUMER_GROUP_HEARTBEAT, self._body(member, epoch, None))
        self.run(100)
        self.tell(f"{member} sends a heartbeat at {at}: the answer is lost")

    def beats(
        self, member: str, at: str, epoch: int, owned: tuple[int, ...] | None
    ) -> tuple[int, tuple[int, ...] | None]:
        """Its epoch, and its assigned partitions; None: unchanged."""
        heard = ask(
            self, self.machine(at).node_id, CONSUMER_GROUP_HEARTBEAT, self._body(member, epoch, owned)
        )
        body = wait_for(self, heard).body
        if body is None or body.error_code:
            raise StoryFailed(f"{member} was refused")
        told = body.assignment
        has = None if told is None else tuple(n for each in told.topic_partitions for n in each.partitions)
        words = "as before" if has is None else " ".join(f"t-{n}" for n in has) or "nothing"
        what = "joins" if epoch == 0 else "sends a heartbeat"
        owns = "" if not owned else f", owns {' '.join(f't-{n}' for n in owned)}"
        self.tell(f"{member} {what} at {at}{owns}: epoch {body.member_epoch}, has {words}")
        return body.member_epoch, has


def order_to_give_up() -> Story:
    """m1 has both partitions and must revoke one for m2. The response is lost, and the coordinator dies. The
    next one sees that m1 owns more than it should, and tells it again: m2 gets its share.
    """
    story = TwoPartitions()
    expect(story.beats("m1", "A", 0, ()), (1, BOTH))
    expect(story.beats("m1", "A", 1, BOTH)[0], 1)
    expect(story.beats("m2", "A", 0, ()), (2, ()))
    story.unheard("m1", "A", 1)
    story.run(300)
    story.kill("A")
    story.until(lambda: story.leader() == "B", "another coordinator")
    story.run(300)
    _, kept = story.beats("m1", "B", 1, BOTH)
    if kept is None or len(kept) != 1:
        raise StoryFailed(f"m1 is not told to give up a partition, but to have {kept}")
    expect(story.beats("m1", "B", 1, kept)[0], 2)
    expect(story.beats("m2", "B", 2, None), (2, tuple(n for n in BOTH if n not in kept)))
    return story


class OffsetProducer(OldProducer):
    """Sends offsets of a group in its transactions."""

    def _group_coordinator(self) -> int:
        topic = self._story.cluster.checker.metadata.newest.topics.get(CONSUMER_OFFSETS)
        return -1 if topic is None else topic.partitions[0].leader

    def send_offset(self, offset: int) -> None:
        story, (producer_id, epoch) = self._story, self._producer
        body = {
            "transactional_id": NAME, "producer_id": producer_id, "producer_epoch": epoch, "group_id": GROUP,
        }  # fmt: skip
        expect(ErrorCode(self._ask(ADD_OFFSETS_TO_TXN, body, OLD_VERSION).error_code), ErrorCode.NONE)
        story.until(lambda: self._group_coordinator() >= 0, "a coordinator of the group")
        story.run(500)
        if self._group_coordinator() == self._coordinator():
            raise StoryFailed("one broker coordinates both")
        partition = {
            "partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1,
            "committed_metadata": "",
        }  # fmt: skip
        commit = {
            **body, "generation_id": -1, "member_id": "", "group_instance_id": None,
            "topics": [{"name": TOPIC, "partitions": [partition]}],
        }  # fmt: skip
        heard = ask(story, self._group_coordinator(), TXN_OFFSET_COMMIT, commit, 30_000, OLD_VERSION)
        answer = wait_for(story, heard).body
        code = None if answer is None else ErrorCode(answer.topics[0].partitions[0].error_code)
        story.tell(f"the producer sends offset {offset}: {'ok' if code is ErrorCode.NONE else code}")
        expect(code, ErrorCode.NONE)

    def found(self, *, stable: bool = True) -> int | ErrorCode:
        """Where the group's next member would start."""
        story = self._story
        topic = {
            "topic_id": story.cluster.checker.metadata.newest.topics[TOPIC].topic_id,
            "partition_indexes": [0],
        }
        group = {"group_id": GROUP, "member_id": None, "member_epoch": -1, "topics": [topic]}
        body: Fields = {"groups": [group], "require_stable": stable}
        heard: list[Reply] = ask(story, self._group_coordinator(), OFFSET_FETCH, body, 30_000)
        answer = wait_for(story, heard).body.groups[0]
        partition = answer.topics[0].partitions[0]
        code = ErrorCode(answer.error_code or partition.error_code)
        told = partition.committed_offset if code is ErrorCode.NONE else code
        story.tell(f"the committed offset: {told.name if isinstance(told, ErrorCode) else told}")
        return told if isinstance(told, ErrorCode) else int(told)


def late_marker_beside_pending_offsets() -> Story:
    """The first copy of a marker is delayed, and arrives after the producer has sent another offset in its
    next transaction, which it aborts: the copy does not commit that offset.
    """
    story = Story()
    producer = OffsetProducer(story)
    held: list[Any] = []

    def is_first_marker(sender: int, receiver: int, message: Any) -> bool:
        found = isinstance(message, LinkAsk) and message.api_key == WRITE_TXN_MARKERS and not held
        held.extend([message] if found else [])
        return found

    producer.send_offset(5)
    story.network.withheld = is_first_marker
    producer.end(commits=True)
    story.tell("the marker does not arrive, and is sent again")
    story.run(TIMEOUT_MS + 500)
    expect(producer.found(), 5)
    producer.send_offset(6)
    story.tell("the first copy arrives")
    story.network.withheld = None
    story.network.release()
    story.run(200)
    expect(producer.found(stable=False), 5)
    expect(producer.found(), ErrorCode.UNSTABLE_OFFSET_COMMIT)
    producer.end(commits=False)
    story.run(200)
    expect(producer.found(), 5)
    return story


STORIES = (order_to_give_up, late_marker_beside_pending_offsets)
