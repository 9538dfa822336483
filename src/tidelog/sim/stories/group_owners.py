"""Coordinators of groups that were replaced, or cannot write: A coordinates when the story begins, and t-0 is
the only partition that members share.
"""

from collections.abc import Mapping
from uuid import UUID

from tidelog.broker.coordinators.internal_topics import CONSUMER_OFFSETS
from tidelog.controller.image import PartitionImage
from tidelog.controller.topics import NewTopic
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.sim.clients.client import Reply
from tidelog.sim.stories.asking import ask, wait_for
from tidelog.sim.story import BROKERS, CONTROLLERS, TOPIC, Story
from tidelog.sim.telling import STEP_MS, StoryFailed, expect

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, CONSUMER_GROUP_HEARTBEAT = 8, 9, 10, 68
GROUP = "g"
SESSION_MS = 2000


class GroupStory(Story):
    """What is told is the state of the coordinator's partition."""

    settings: Mapping[str, object] = {
        "group.consumer.session.timeout.ms": SESSION_MS,
        "group.consumer.heartbeat.interval.ms": 400,
    }

    partitions = 1  # of the topic that members share

    def _found(self, settings: dict[str, str]) -> None:
        cluster, hosts = self.cluster, list(self.cluster.brokers)
        cluster.start()
        placed = dict.fromkeys(range(self.partitions), hosts)
        cluster.create_topic(NewTopic(TOPIC, -1, -1, placed, settings))
        newest = cluster.checker.metadata
        self.world.run_while(lambda: TOPIC not in newest.newest.topics, 20_000)
        self.world.run_until(self.world.now_ms + 1000)
        ask(self, hosts[0], FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": [GROUP]})
        self.world.run_while(lambda: not self.all_in_sync(), 20_000)
        self.world.run_until(self.world.now_ms + 2000)
        leader, active = self.partition().leader, cluster.active()
        if leader < 0 or active is None:
            raise StoryFailed("the cluster does not begin")
        brokers = [leader, *(node for node in self.partition().replicas if node != leader)]
        voters = [active.node_id, *(node for node in cluster.voters if node != active.node_id)]
        self.begin(dict(zip(brokers, BROKERS, strict=False)) | dict(zip(voters, CONTROLLERS, strict=True)))

    def partition(self) -> PartitionImage:
        topic = self.cluster.checker.metadata.newest.topics.get(CONSUMER_OFFSETS)
        return topic.partitions[0] if topic is not None else PartitionImage((), (), -1, -1)

    def state(self) -> str:
        return super().state().replace("leader", "coordinator", 1)

    @property
    def topic_id(self) -> UUID:
        return self.cluster.checker.metadata.newest.topics[TOPIC].topic_id

    # --- members --------------------------------------------------------------------------------------------

    def beat(self, member: str, at: str, epoch: int, *, owns: bool = False) -> tuple[int, bool] | None:
        """A member's heartbeat; returns its epoch and whether t-0 is assigned to it, or None without a
        response or after a refusal.
        """
        joins = epoch == 0
        owned = [{"topic_id": self.topic_id, "partitions": [0]}] if owns else []
        body: Fields = {
            "group_id": GROUP, "member_id": member, "member_epoch": epoch, "instance_id": None,
            "rack_id": None, "rebalance_timeout": 30_000, "subscribed_topic_names": [TOPIC],
            "subscribed_topic_regex": None, "server_assignor": None, "topic_partitions": owned,
        }  # fmt: skip
        reply = wait_for(self, ask(self, self.machine(at).node_id, CONSUMER_GROUP_HEARTBEAT, body))
        what = f"{member} {'joins' if joins else 'sends a heartbeat'} at {at}"
        code = _code(reply, "error_code")
        if code is not ErrorCode.NONE:
            self.tell(f"{what}: {'no answer' if code is None else code.name}")
            return None
        assignment = reply.body.assignment
        has = assignment is not None and bool(assignment.topic_partitions)
        self.tell(f"{what}: epoch {reply.body.member_epoch}, has {'t-0' if has else 'nothing'}")
        return reply.body.member_epoch, has

    def commit(self, offset: int, at: str) -> ErrorCode | None:
        """From outside the group, as a consumer does that assigns itself its partition."""
        wanted = {
            "partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1,
            "committed_metadata": "",
        }  # fmt: skip
        body: Fields = {
            "group_id": "alone", "generation_id_or_member_epoch": -1, "member_id": "",
            "group_instance_id": None, "topics": [{"topic_id": self.topic_id, "partitions": [wanted]}],
        }  # fmt: skip
        reply = wait_for(self, ask(self, self.machine(at).node_id, OFFSET_COMMIT, body))
        code = None if reply.body is None else ErrorCode(reply.body.topics[0].partitions[0].error_code)
        self.tell(f"commit offset {offset} at {at}: {_name(code)}")
        return code

    def ask_offset(self, at: str) -> list[Reply]:
        """Receives the response."""
        topic = {"topic_id": self.topic_id, "partition_indexes": [0]}
        group = {"group_id": "alone", "member_id": None, "member_epoch": -1, "topics": [topic]}
        body: Fields = {"groups": [group], "require_stable": True}
        return ask(self, self.machine(at).node_id, OFFSET_FETCH, body, 60_000)

    def hear_offset(self, asked: list[Reply], at: str) -> int | ErrorCode | None:
        reply = wait_for(self, asked)
        found: int | ErrorCode | None = None
        if reply.body is not None:
            group = reply.body.groups[0]
            found = ErrorCode(group.error_code) or group.topics[0].partitions[0].committed_offset
        self.tell(f"the committed offset at {at}: {found.name if isinstance(found, ErrorCode) else found}")
        return found

    def offset(self, at: str) -> int | ErrorCode | None:
        return self.hear_offset(self.ask_offset(at), at)


def _code(reply: Reply, name: str) -> ErrorCode | None:
    return None if reply.body is None else ErrorCode(getattr(reply.body, name))


def _name(code: ErrorCode | None) -> str:
    return "no answer" if code is None else "ok" if code is ErrorCode.NONE else code.name


def _stays_owner(story: GroupStory, epoch: int, at: str) -> None:
    expect(story.beat("m1", at, epoch, owns=True), (epoch, True))


def member_that_was_thrown_out_in_vain() -> Story:
    """A cannot write to its log, because it is not replicated. m1 is silent for a session, and A would remove
    it; m2 would get its partition, and is not told so however often it asks. The next coordinator knows
    nothing of it: t-0 still belongs to m1.
    """
    story = GroupStory()
    expect(story.beat("m1", "A", 0), (1, True))
    story.cut("A", "BC")
    story.run(SESSION_MS + 100)
    for _ in range(3):
        expect(story.beat("m2", "A", 0), None)
    story.kill("A")
    story.until(lambda: story.leader() == "B", "another coordinator")
    story.heal()
    story.run(200)
    _stays_owner(story, 1, "B")
    expect(story.beat("m2", "B", 0), (2, False))
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    return story


def thawed_coordinator_reads_old_mail() -> Story:
    """A is frozen and replaced; an offset is committed at B. When A resumes, it first reads old fetches of B
    and C from its sockets: they do not confirm that it still leads, and it does not serve the old offset.
    """
    story = GroupStory()
    expect(story.commit(1, "A"), ErrorCode.NONE)
    story.run(500)
    story.freeze("A")
    story.until(lambda: story.leader() == "B", "another coordinator")
    story.run(200)
    expect(story.commit(2, "B"), ErrorCode.NONE)
    asked = story.ask_offset("A")
    story.run(100)
    story.thaw("A")
    expect(story.hear_offset(asked, "A"), ErrorCode.NOT_COORDINATOR)
    expect(story.offset("B"), 2)
    story.until(story.all_in_sync, "the return of A")
    return story


def coordinator_that_the_controllers_do_not_hear() -> Story:
    """A is disconnected from the controllers only. B and C follow it until B is appointed in its place, and
    an offset is committed at B: A does not serve the old one, although both have just followed it.
    """
    story = GroupStory()
    expect(story.commit(1, "A"), ErrorCode.NONE)
    story.cut("A", "XYZ")
    story.until(lambda: story.leader() == "B", "another coordinator")
    while story.commit(2, "B") is not ErrorCode.NONE:
        story.run(STEP_MS)
    expect(story.offset("A"), ErrorCode.NOT_COORDINATOR)
    expect(story.offset("B"), 2)
    story.heal()
    story.until(story.all_in_sync, "the return of A")
    return story


def coordinator_whose_connections_closed() -> Story:
    """The connections between A and the controllers close: B is appointed long before A's session is over,
    and an offset is committed there. A has noticed it, and does not serve the old one.
    """
    story = GroupStory()
    expect(story.commit(1, "A"), ErrorCode.NONE)
    expect(story.offset("A"), 1)
    story.cut_noticed("A", "XYZ")
    expect(story.offset("A"), 1)
    story.until(lambda: story.leader() == "B", "another coordinator")
    while story.commit(2, "B") is not ErrorCode.NONE:
        story.run(STEP_MS)
    expect(story.offset("A"), ErrorCode.NOT_COORDINATOR)
    expect(story.offset("B"), 2)
    story.heal()
    story.until(story.all_in_sync, "the return of A")
    return story


def coordinator_that_another_controller_has_lost() -> Story:
    """The connections of A with Y and Z close, and X still answers its heartbeats. Then X is cut off from
    all. The next controller appoints B long before A's session is over, and an offset is committed there. A
    did not notice any of that, but it knows that it may happen: it does not serve the old offset.
    """
    story = GroupStory()
    expect(story.commit(1, "A"), ErrorCode.NONE)
    story.cut_noticed("A", "YZ")
    story.run(1500)
    expect(story.offset("A"), 1)
    story.cut("X", "YZABC")
    story.until(lambda: story.leader() == "B", "another coordinator")
    while story.commit(2, "B") is not ErrorCode.NONE:
        story.run(STEP_MS)
    expect(story.offset("A"), ErrorCode.NOT_COORDINATOR)
    expect(story.offset("B"), 2)
    story.heal()
    story.until(story.all_in_sync, "the return of A")
    return story


def coordinator_without_controllers() -> Story:
    """All controllers are down. A gets requests for committed offsets and for its members' partitions: it
    responds after B and C have shown that they still follow it.
    """
    story = GroupStory()
    expect(story.commit(1, "A"), ErrorCode.NONE)
    expect(story.beat("m1", "A", 0), (1, True))
    story.kill("XYZ")
    for _ in range(3):
        story.run(1500)
        _stays_owner(story, 1, "A")
    expect(story.offset("A"), 1)
    expect(story.commit(2, "A"), ErrorCode.NONE)
    expect(story.offset("A"), 2)
    story.kill("C")
    story.run(1500)
    expect(story.offset("A"), ErrorCode.NOT_COORDINATOR)
    return story


STORIES = (
    coordinator_that_the_controllers_do_not_hear,
    coordinator_whose_connections_closed,
    coordinator_that_another_controller_has_lost,
    coordinator_without_controllers,
    member_that_was_thrown_out_in_vain,
    thawed_coordinator_reads_old_mail,
)
