"""What readers get from replicas that were down: nothing that was never committed."""

from collections.abc import Callable

from tidelog.errors import ErrorCode
from tidelog.sim.clients.client import ReadCall, Reply, RequestCall
from tidelog.sim.stories.deleted_records import AT_ONCE_MS
from tidelog.sim.stories.durability import DurabilityStory
from tidelog.sim.stories.operations import delete_records
from tidelog.sim.stories.primary_backup_group import force, is_missed, is_whole, promote, serves
from tidelog.sim.story import TOPIC
from tidelog.sim.telling import STEP_MS, expect

LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH = 2, 23
LATEST = -1
PATIENCE_MS = 2000  # longer than a leader waits for its followers
CHECKPOINTED_MS = 3500  # within which every broker has written its checkpoints


class ReaderStory(DurabilityStory):
    def sync(self, letter: str) -> None:
        self.tell(f"{letter} syncs its log")
        self.driver(letter).sync_now()

    def ask(self, letter: str) -> int:
        """The high watermark that a reader at the end gets, as in the readers' checkers."""
        heard: list[Reply] = []
        end_offset, client = self.driver(letter).log.end_offset, self.client
        call = ReadCall(client.client_id, client.next_number(), TOPIC, 0, end_offset, -1, -1, 1 << 20)
        node = self.machine(letter).node_id
        client.ask(node, call, heard.append)
        while not heard:
            self.run(STEP_MS)
        reply = heard[0]
        expect(reply.error, ErrorCode.NONE)
        self.cluster.checker.history(TOPIC, 0).told_watermark(
            client.client_id, reply.process, node, reply.watermark, reply.stable, reply.agreed_epoch
        )
        self.tell(f"{letter} tells a reader that all before {reply.watermark} is committed")
        return reply.watermark

    def read_behind_the_end(self, letter: str) -> ErrorCode:
        """What a consumer hears here that has read everything at the leader. It knows no leader epoch, as
        older clients.
        """
        offset = self.driver(self.leader()).log.end_offset
        error = self.read_at(letter, offset).error
        self.tell(f"read at {letter} from offset {offset}: {error.name}")
        return error

    def end_offset(self, letter: str) -> ErrorCode:
        """ListOffsets: what a consumer hears here that wants to begin at the end."""
        heard: list[Reply] = []
        wanted = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": LATEST}
        topics = [{"name": TOPIC, "partitions": [wanted]}]
        body = {"replica_id": -1, "isolation_level": 0, "topics": topics, "timeout_ms": 1000}
        call = RequestCall(self.client.client_id, self.client.next_number(), LIST_OFFSETS, body)
        self.client.ask(self.machine(letter).node_id, call, heard.append)
        self.until(lambda: bool(heard), "the end offset")
        [answer] = heard[0].body.topics[0].partitions
        error = ErrorCode(answer.error_code)
        self.tell(f"ask {letter} for the end offset: {error.name if error else answer.offset}")
        return error

    def hear_of_truncation(self, letter: str, epoch: int) -> list[ErrorCode]:
        """What a consumer hears here that has everything, the last record of ``epoch``: to a fetch, and to
        the question where that epoch ends.
        """
        offset, heard = self.driver(self.leader()).log.end_offset, list[Reply]()
        client, node = self.client, self.machine(letter).node_id
        client.ask(
            node,
            ReadCall(client.client_id, client.next_number(), TOPIC, 0, offset, -1, epoch, 1),
            heard.append,
            patience_ms=PATIENCE_MS,
        )
        self.until(lambda: len(heard) == 1, "the response to the fetch")
        wanted = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
        body = {"replica_id": -1, "topics": [{"topic": TOPIC, "partitions": [wanted]}]}
        client.ask(
            node,
            RequestCall(client.client_id, client.next_number(), OFFSET_FOR_LEADER_EPOCH, body),
            heard.append,
            patience_ms=PATIENCE_MS,
        )
        self.until(lambda: len(heard) == 2, "the end of the epoch")
        [answer] = heard[1].body.topics[0].partitions
        error, end = ErrorCode(answer.error_code), answer.end_offset
        diverging = heard[0].diverging
        fetched = heard[0].error.name if heard[0].error else f"truncated: {diverging}" if diverging else "ok"
        ends = error.name if error else f"at {end}" if end >= 0 else "unknown"
        self.tell(
            f"fetch at {letter} after a record of epoch {epoch}: {fetched}; the end of that epoch: {ends}"
        )
        return [heard[0].error, error]


def cut_tail_comes_back() -> ReaderStory:
    """A former leader truncated an uncommitted record and has another in its place. A power failure brings
    the first one back, below the checkpointed high watermark: no reader gets it.
    """
    story = ReaderStory()
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("A", "BCXYZ")
    expect(story.write(acks=1), ErrorCode.NONE)
    story.sync("A")
    story.until(lambda: story.leader() not in ("A", "nobody"), "another leader")
    expect(story.write(), ErrorCode.NONE)
    story.slow_disk("A")
    story.heal()
    story.until(story.all_in_sync, "the return of A")
    story.repair_disk("A")
    story.run(CHECKPOINTED_MS)
    story.tell_logs()
    story.power_off("A")
    story.cut("A", "BC")
    story.start("A")
    story.until(lambda: story.has_opened("A"), "the start of A")
    story.run(500)
    story.tell_logs()
    expect(story.read(at="A"), ["r1"])
    story.heal()
    story.until(story.all_in_sync, "the return of A")
    story.run(500)
    expect(story.read(at="A"), ["r1", "r3"])
    return story


def told_before_it_heard_of_a_loss() -> ReaderStory:
    """All lose power, and an operator forces a leader that lacks a record. A follower that alone had synced
    it, and has not reached the leader yet, still serves it. Then it truncates it, too.
    """
    story = ReaderStory()
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    for letter in "ABC":
        story.sync(letter)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.sync("B")
    expect(story.ask("B"), 3)
    story.run(CHECKPOINTED_MS)
    story.power_off("ABC")
    story.run(1000)
    story.start("AC")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.elect_unclean()
    story.cut("B", "AC")
    story.start("B")
    story.until(lambda: story.has_opened("B"), "the start of B")
    story.run(500)
    expect(story.ask("B"), 3)
    story.heal()
    story.until(story.all_in_sync, "the return of all")
    story.run(500)
    expect(story.ask("B"), 2)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    expect(story.read(), ["r1", "r2", "r4"])
    return story


def quiet_partition() -> ReaderStory:
    """A follower returns from a power failure with everything, and nothing more is written: it is sure of its
    records once its leader knows where its log ends, and serves all of them.
    """
    story = ReaderStory()
    expect(story.write(), ErrorCode.NONE)
    expect(story.write(), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    story.sync("B")
    story.power_off("B")
    story.cut("B", "AC")
    story.start("B")
    story.until(lambda: story.has_opened("B"), "the start of B")
    story.run(500)
    expect(story.read(at="B"), ["r1"])
    story.heal()
    story.until(story.all_in_sync, "the return of B")
    story.run(1000)
    expect(story.read(at="B"), ["r1", "r2"])
    return story


def settings_from_after_its_time() -> ReaderStory:
    """A primary is disconnected with a pending record. A backup is promoted, and then one copy is enough.
    When the former primary learns of both at once, its record is not confirmed.
    """
    story = ReaderStory(3, replication_mode="primary-backup", min_insync_replicas="3")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("A", "BCXYZ")
    waiting = story.send(at="A")
    story.until(lambda: is_missed(story), "the end of the leadership")
    promote(story, "B")
    story.until(lambda: serves(story), "the new primary")
    story.set_for_topic("min.insync.replicas", "1")
    expect(story.write(), ErrorCode.NONE)
    story.heal()
    story.until(lambda: is_whole(story), "the return of A")
    expect(story.await_answer(waiting), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    expect(story.read(), ["r1", "r3"])
    story.tell_logs()
    return story


def given_up_before_the_beginning() -> ReaderStory:
    """A former primary confirmed records that an operator gave up, and what replaced them was deleted. Its
    log ends where the new primary's begins: its records before that are never committed again.
    """
    story = ReaderStory(2, replication_mode="primary-backup", min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("A", "BXYZ")
    for _ in range(2):
        expect(story.write(at="A"), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    story.kill("A")
    story.until(lambda: is_missed(story), "the end of the leadership")
    promote(story, "B")
    force(story)
    story.until(lambda: serves(story), "the new primary")
    story.run(300)
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    expect(delete_records(story, 3), ErrorCode.NONE)
    story.tell_logs()
    story.heal()
    story.start("A")
    story.until(lambda: is_whole(story), "the return of A")
    story.run(500)
    story.tell_logs()
    return story


def deleted_while_it_was_away() -> ReaderStory:
    """A follower returns to a leader that has deleted everything, and restarts at the leader's log start. It
    is a member only once that is synced: a power failure would bring back its old log, and it would lead with
    it.
    """
    story = ReaderStory(flush_messages="1")
    expect(story.write(), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    expect(story.write(), ErrorCode.NONE)
    expect(story.write(), ErrorCode.NONE)
    expect(delete_records(story, 3), ErrorCode.NONE)
    story.cut("C", "AB")
    story.start("C")
    story.until(lambda: story.has_opened("C"), "the start of C")
    story.slow_disk("C")
    story.heal()
    story.run(1000)
    story.power_off("C")
    story.kill("AB")
    story.repair_disk("C")
    story.start("C")
    story.run(3000)
    story.start("AB")
    story.until(story.all_in_sync, "the return of all")
    expect(story.write(), ErrorCode.NONE)
    expect(story.driver("A").log.end_offset, 4)
    return story.end()


def settings_that_a_backup_has_not_heard_of() -> ReaderStory:
    """Three copies are required now, and B, disconnected from the controllers, does not know. It fetches a
    record that C lacks. Primary and controllers are killed: B serves only what it knows to be committed, and
    the record is lost with the primary's disk.
    """
    story = ReaderStory(3, replication_mode="primary-backup", min_insync_replicas="2")
    story.cluster.confirm_deaths()
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("B", "XYZ")
    story.set_for_topic("min.insync.replicas", "3")
    story.run(1000)
    story.cut("A", "C")
    waiting = story.send()
    story.run(200)
    expect(waiting.reply, None)
    story.tell_logs()
    story.heal()
    story.kill("AXY")
    story.run(600)
    expect(story.read(at="B"), ["r1"])
    story.cut("B", "ACXYZ")
    story.lose_disk("A")
    story.start("AXY")
    story.until(lambda: serves(story) and story.in_sync() == "AC", "the return of A")
    story.heal()
    story.until(lambda: is_whole(story), "the return of B")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    expect(story.read(), ["r1", "r3"])
    story.tell_logs()
    return story


def replaced_leader_lacks_what_was_read() -> ReaderStory:
    """The connections of A close, and B leads long before A's session is over. A consumer reads a record at
    B that A lacks, and then asks A. It is sent away: told that its position is out of range, it would read
    everything again. Nor does A tell where the log ends.
    """
    story = ReaderStory()
    expect(story.write(), ErrorCode.NONE)
    story.run(300)
    story.cut_noticed("A", "BCXYZ")
    story.until(lambda: story.leader() == "B", "another leader")
    expect(story.write(), ErrorCode.NONE)
    expect(story.read(), ["r1", "r2"])
    expect(story.read_behind_the_end("A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    expect(story.end_offset("B"), ErrorCode.NONE)
    expect(story.end_offset("A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    story.heal()
    return story.end_whole("A")


def replaced_leader_lacks_an_epoch() -> ReaderStory:
    """The connections of A close, and B leads. A consumer reads a record of B's epoch, and then asks A, with
    that epoch. It is sent away: told that the record was truncated, it would go back.
    """
    story = ReaderStory()
    expect(story.write(), ErrorCode.NONE)
    story.run(300)
    story.cut_noticed("A", "BCXYZ")
    story.until(lambda: story.leader() == "B", "another leader")
    expect(story.write(), ErrorCode.NONE)
    expect(story.read(), ["r1", "r2"])
    epoch = story.partition().leader_epoch
    expect(story.hear_of_truncation("B", epoch), [ErrorCode.NONE] * 2)
    expect(story.hear_of_truncation("A", epoch), [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2)
    story.heal()
    return story.end_whole("A")


def thawed_voter_lacks_what_was_read() -> ReaderStory:
    """Mode quorum. A is frozen and cut off, and another voter is elected. A consumer reads a record there and
    asks A, which answers before it looks at the time: its position is not out of range.
    """
    story = ReaderStory(replication_mode="quorum")
    expect(story.write(), ErrorCode.NONE)
    story.run(300)
    story.cut("A", "BCXYZ")
    story.freeze("A")
    story.until(lambda: story.leader() in "BC", "another leader")
    expect(story.write(), ErrorCode.NONE)
    heard: list[Reply] = []
    offset, client = story.driver(story.leader()).log.end_offset, story.client
    call = ReadCall(client.client_id, client.next_number(), TOPIC, 0, offset, -1, -1, 1)
    client.ask(story.machine("A").node_id, call, heard.append)
    story.run(100)
    story.thaw("A")
    story.until(lambda: bool(heard), "the response")
    expect(heard[0].error, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    story.tell(f"fetch behind the end of A, which has just thawed: {heard[0].error.name}")
    story.heal()
    return story.end_whole("A")


def emptied_follower_lacks_what_was_read() -> ReaderStory:
    """A comes back with an empty disk and cannot reach the new leader yet. A consumer that still takes it for
    the leader is sent away.
    """
    story = ReaderStory()
    expect(story.write(), ErrorCode.NONE)
    story.run(300)
    story.kill("A")
    story.lose_disk("A")
    story.until(lambda: story.leader() == "B", "another leader")
    story.run(4000)
    story.cut("A", "BC")
    story.start("A")
    story.until(lambda: story.has_opened("A"), "the start of A")
    story.run(500)
    expect(story.read_behind_the_end("A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    story.heal()
    return story.end_whole("A")


def primary_that_is_no_leader_any_more() -> ReaderStory:
    """The topic changes to ``isr``. A has paused for that and is cut off before it hears of the change. B
    leads, and a consumer reads a record there that A lacks: A, still a primary, sends it away, and does not
    tell where the log ends.
    """
    story = ReaderStory(replication_mode="primary-backup", min_insync_replicas="2")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.change("isr")
    while story.partition().mode != "isr":
        story.world.run_until(story.world.now_ms + AT_ONCE_MS)
    story.cut("A", "BCXYZ")
    story.until(lambda: story.leader() == "B", "another leader")
    expect(story.write(), ErrorCode.NONE)
    expect(story.read_behind_the_end("A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    expect(story.end_offset("A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    story.heal()
    return story.end_whole("A")


STORIES: list[Callable[[], ReaderStory]] = [
    cut_tail_comes_back,
    quiet_partition,
    told_before_it_heard_of_a_loss,
    settings_from_after_its_time,
    given_up_before_the_beginning,
    deleted_while_it_was_away,
    settings_that_a_backup_has_not_heard_of,
    replaced_leader_lacks_what_was_read,
    replaced_leader_lacks_an_epoch,
    thawed_voter_lacks_what_was_read,
    emptied_follower_lacks_what_was_read,
    primary_that_is_no_leader_any_more,
]
