"""An operator's actions on a running cluster, combined with faults."""

from collections.abc import Callable

from tidelog.errors import ErrorCode
from tidelog.sim.clients.client import Reply, RequestCall
from tidelog.sim.clients.manager import DELETE_RECORDS, DELETE_TIMEOUT_MS
from tidelog.sim.stories.primary_backup_group import group, is_missed, is_whole
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import expect


def delete_records(story: Story, before: int, at: str | None = None) -> ErrorCode:
    """DeleteRecords at the leader, or at the broker that a client considers the leader; returns the
    response.
    """
    heard: list[Reply] = []
    wanted = {"partition_index": 0, "offset": before}
    body = {"topics": [{"name": TOPIC, "partitions": [wanted]}], "timeout": DELETE_TIMEOUT_MS}
    call = RequestCall(story.client.client_id, story.client.next_number(), DELETE_RECORDS, body)
    where = at or story.leader()
    story.client.ask(story.machine(where).node_id, call, heard.append)
    story.until(lambda: bool(heard), "the deletion")
    [answer] = heard[0].body.topics[0].partitions
    code = ErrorCode(answer.error_code)
    place = f" at {at}" if at else ""
    story.tell(f"delete the records before {before}{place}: {code.name if code else 'ok'}")
    return code


def expired_records_are_not_missed() -> Story:
    """A primary lost power, and all its records were deleted meanwhile: it does not wait for a backup that
    was down and still has them.
    """
    story = group(2)
    expect(story.write(), ErrorCode.NONE)
    expect(story.write(), ErrorCode.NONE)
    story.kill("B")
    story.until(lambda: story.in_sync() == "A", "the departure of B")
    expect(delete_records(story, 2), ErrorCode.NONE)
    story.run(3500)
    story.power_off("A")
    story.until(lambda: is_missed(story), "the end of the leadership")
    story.start("AB")
    story.until(lambda: is_whole(story), "the return of both")
    story.until(lambda: len(story.driver("A").replica.in_sync) == 2, "the leader's word of it")
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def expired_records_of_voters() -> Story:
    """All records of two voters have expired, and the third was down and has the first of them: it does not
    win an election with that.
    """
    story = Story(replication_mode="quorum")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.kill("C")
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.tell("the records of A and B are deleted by retention")
    for letter in "AB":
        story.driver(letter).log.advance_start(story.driver(letter).replica.high_watermark)
    story.run(3500)
    story.tell_logs()
    story.kill("A")
    story.start("C")
    story.run(10000)
    story.tell_logs()
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def deleted_beginning_hides_no_difference() -> Story:
    """A former leader has an uncommitted tail, and everything that replaced it was deleted: the point of
    divergence is unknown, so it keeps nothing, and does not deduplicate a retry by what it had.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("A", "BCXYZ")
    expect(story.write(acks=1), ErrorCode.NONE)
    sent = story.send(acks=1, idempotent=True)
    expect(story.await_answer(sent), ErrorCode.NONE)
    story.kill("A")
    story.until(lambda: story.leader() != "A" and story.partition().leader >= 0, "another leader")
    expect(story.write(), ErrorCode.NONE)
    expect(story.write(), ErrorCode.NONE)
    expect(delete_records(story, 3), ErrorCode.NONE)
    story.heal()
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    story.prefer("A")
    story.run(500)
    again = story.send_again(sent)
    expect(story.await_answer(again), ErrorCode.NONE)
    expect(again.reply is not None and again.reply.offset, 3)
    return story.end()


def deleted_records_stay_deleted() -> Story:
    """A deletion is acknowledged when every member of the in-sync set has learned of it, or has left: the
    next leader does not bring records back.
    """
    story = Story()
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("A", "BC")
    story.run(1500)
    expect(delete_records(story, 3), ErrorCode.REQUEST_TIMED_OUT)
    story.kill("A")
    story.heal()
    story.until(lambda: story.leader() not in ("A", "nobody"), "another leader")
    story.tell_logs()
    story.start("A")
    return story.end_whole("A")


STORIES: list[Callable[[], Story]] = [
    expired_records_are_not_missed,
    expired_records_of_voters,
    deleted_beginning_hides_no_difference,
    deleted_records_stay_deleted,
]
