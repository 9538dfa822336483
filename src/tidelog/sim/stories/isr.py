"""Mode ``isr``: three replicas, ``min.insync.replicas=2``, producers with ``acks=all``, unclean elections
off, unless stated otherwise.
"""

from tidelog.errors import ErrorCode
from tidelog.sim.story import Story
from tidelog.sim.telling import expect


def leader_killed() -> Story:
    """1. The leader is killed: another member leads, writes continue, and the old leader truncates records
    that only it had.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BC")
    expect(story.write(acks=1), ErrorCode.NONE)
    story.tell_logs()
    story.kill("A")
    story.heal()
    story.until(lambda: story.is_led_anew(0), "an election")
    expect(story.write(), ErrorCode.NONE)
    story.start("A")
    return story.end_whole("A")


def follower_killed() -> Story:
    """2. A follower is killed: it leaves the in-sync set when it is fenced, and writes continue."""
    story = Story()
    story.kill("B")
    waiting = story.send()
    story.until(lambda: story.in_sync() == "AC", "the departure of B")
    expect(story.await_answer(waiting), ErrorCode.NONE)
    story.start("B")
    return story.end_whole("B")


def both_followers_killed() -> Story:
    """3. Both followers are killed: acks=all is refused. acks=1 is accepted, but cannot be read before a
    second copy exists.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    expect(story.write(), ErrorCode.NOT_ENOUGH_REPLICAS)
    expect(story.write(acks=1), ErrorCode.NONE)
    expect(story.read(), ["r1"])
    story.start("B")
    story.until(lambda: story.in_sync() == "AB", "the return of B")
    story.run(500)
    expect(story.read(), ["r1", "r3"])
    return story


def leader_and_follower_killed() -> Story:
    """4. The leader and a follower are killed, the third is in sync: it leads, reads continue, acks=all waits
    for a second replica.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.kill("AB")
    story.until(lambda: story.leader() == "C", "an election")
    expect(story.read(), ["r1"])
    expect(story.write(), ErrorCode.NOT_ENOUGH_REPLICAS)
    story.start("B")
    story.until(lambda: story.in_sync() == "BC", "the return of B")
    story.run(50)  # until the leader has heard of it
    expect(story.write(), ErrorCode.NONE)
    story.start("A")
    return story.end_whole("A")


def last_member_killed() -> Story:
    """5. Last replica standing: both followers left the in-sync set, then the leader is killed. They hold
    everything committed, so one of them leads; only records that the leader accepted alone are lost.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BC")
    expect(story.write(acks=1), ErrorCode.NONE)
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    story.tell_logs()
    story.kill("A")
    story.heal()
    story.until(lambda: story.leader() in ("B", "C"), "an election")
    story.until(lambda: len(story.in_sync()) == 2, "a second member")
    story.run(50)
    expect(story.write(), ErrorCode.NONE)
    story.start("A")
    return story.end_whole("A")


def last_member_killed_min_isr_1() -> Story:
    """5. Last replica standing, min.insync.replicas=1: the leader alone has committed records, so the
    partition waits for it.
    """
    story = Story(min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BC")
    waiting = story.send()
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    expect(story.await_answer(waiting), ErrorCode.NONE)
    story.kill("A")
    story.heal()
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.run(5000)
    expect(story.write(), None)
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    story.run(500)
    expect(story.read(), ["r1", "r2"])
    return story


def last_member_killed_unclean() -> Story:
    """5. Last replica standing, unclean elections allowed: a follower leads at once, and what it lacks is
    lost.
    """
    story = Story(min_insync_replicas="1", unclean_leader_election_enable="true")
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BC")
    waiting = story.send()
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    expect(story.await_answer(waiting), ErrorCode.NONE)
    story.tell_logs()
    story.kill("A")
    story.heal()
    story.until(lambda: story.leader() in ("B", "C"), "an unclean election")
    expect(story.write(), ErrorCode.NONE)
    story.start("A")
    return story.end_whole("A")


def all_killed() -> Story:
    """6. All are killed, and the one that was not in sync returns first: the partition waits for a member."""
    story = _all_killed(Story(min_insync_replicas="1"))
    story.run(5000)
    expect(story.leader(), "nobody")
    story.start("AB")
    return story.end_whole("everybody")


def all_killed_unclean() -> Story:
    """6. All are killed, unclean elections allowed: the first one back leads, the others truncate to it."""
    story = _all_killed(Story(min_insync_replicas="1", unclean_leader_election_enable="true"))
    story.until(lambda: story.leader() == "C", "an unclean election")
    expect(story.write(), ErrorCode.NONE)
    story.start("AB")
    return story.end_whole("everybody")


def _all_killed(story: Story) -> Story:
    expect(story.write(), ErrorCode.NONE)
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    expect(story.write(), ErrorCode.NONE)
    story.kill("AB")
    story.run(4000)
    story.start("C")
    return story


def leader_frozen() -> Story:
    """7. The leader is frozen for 30 seconds: another leads meanwhile, and the old one never acknowledges its
    pending writes.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BC")
    waiting = story.send()
    story.run(100)
    story.freeze("A")
    story.heal()
    story.until(lambda: story.is_led_anew(0), "an election")
    expect(story.write(), ErrorCode.NONE)
    story.run(26_000)
    story.thaw("A")
    expect(story.await_answer(waiting), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return story.end_whole("A")


def leader_cut_off_with_a_client() -> Story:
    """8. The leader is disconnected from all but a client: it can commit nothing, and stops serving after its
    session. On the other side another replica leads.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BCXYZ")
    expect(story.write(acks=1, at="A"), ErrorCode.NONE)
    waiting = story.send(at="A")
    expect(story.read(at="A"), ["r1"])
    story.until(lambda: story.is_led_anew(0), "an election")
    expect(story.write(acks=1, at="A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    expect(story.read(at="A"), [])
    expect(story.write(), ErrorCode.NONE)
    story.heal()
    expect(story.await_answer(waiting), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return story.end_whole("A")


def leader_loses_power() -> Story:
    """9. The leader loses power and its unsynced records: the others hold them, and the old leader joins the
    in-sync set again after it has caught up.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.power_off("A")
    story.run(200)
    story.start("A")
    story.until(lambda: story.is_led_anew(0), "an election")
    story.run(50)
    expect(story.write(), ErrorCode.NONE)
    return story.end_whole("A")


def all_lose_power() -> Story:
    """9. All three lose power at once: records that no replica had synced are lost, although they were
    acknowledged.
    """
    story = _all_lose_power(Story())
    # How much a replica had synced by itself is random; the newest record was not synced.
    expect("r3" in story.read(), False)
    return story


def all_lose_power_flushed() -> Story:
    """9. All three lose power at once, flush.messages=1: an acknowledgement means synced; nothing is lost."""
    story = _all_lose_power(Story(flush_messages="1"))
    expect(story.read(), ["r1", "r2", "r3"])
    return story


def _all_lose_power(story: Story) -> Story:
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
        story.run(500)
    story.power_off("ABC")
    story.run(500)
    story.start("ABC")
    story.until(lambda: story.is_led_anew(0) and story.all_in_sync(), "the return of everybody")
    story.run(500)
    return story


def leader_loses_its_disk() -> Story:
    """10. The leader returns with an empty disk: it cannot lead until it has caught up."""
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.lose_disk("A")
    story.start("A")
    story.until(lambda: story.is_led_anew(0), "an election")
    return story.end_whole("A")


def slow_follower() -> Story:
    """11. A slow follower delays every write until it leaves the in-sync set. It returns when it has caught
    up.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.slow_down("A", "B", 4000)
    waiting = story.send()
    story.until(lambda: story.in_sync() == "AC", "the departure of B")
    expect(story.await_answer(waiting, 20_000), ErrorCode.NONE)
    expect(story.write(), ErrorCode.NONE)
    story.heal()
    return story.end_whole("B")


def active_controller_killed() -> Story:
    """14. The active controller is killed: reads and writes continue, and the next controller decides within
    a second.
    """
    story = Story()
    story.kill("X")
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    story.until(lambda: story.is_led_anew(0), "an election")
    expect(story.write(), ErrorCode.NONE)
    return story


def controllers_majority_killed() -> Story:
    """15. A majority of the controllers is killed: partitions stay available, but those of a dead leader
    wait.
    """
    story = Story()
    story.kill("XY")
    story.run(3000)
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    story.run(5000)
    expect(story.is_led_anew(0), False)
    story.start("X")
    story.until(lambda: story.is_led_anew(0), "an election")
    expect(story.write(), ErrorCode.NONE)
    return story


def retry_of_an_idempotent_producer() -> Story:
    """16. An idempotent producer retries after a timeout: its record is there once."""
    return _retry(Story(), idempotent=True, left=["r1"])


def retry_without_idempotence() -> Story:
    """16. A producer without idempotence retries after a timeout: its record may be there twice."""
    return _retry(Story(), idempotent=False, left=["r1", "r1"])


def _retry(story: Story, *, idempotent: bool, left: list[str]) -> Story:
    story.deafen_client("A")
    first = story.send(idempotent=idempotent)
    expect(story.await_answer(first, 1000), None)
    story.kill("A")
    story.until(lambda: story.is_led_anew(0), "an election")
    story.run(50)
    expect(story.await_answer(story.send_again(first)), ErrorCode.NONE)
    expect(story.read(), left)
    return story


def divergence_over_two_epochs() -> Story:
    """Two leaders in a row wrote records that were not replicated: each, when it returns, truncates its own
    by the leader epoch.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BC")
    expect(story.write(acks=1, at="A"), ErrorCode.NONE)
    story.kill("A")
    story.until(lambda: story.leader() == "B", "an election")
    story.cut("B", "C")
    expect(story.write(acks=1, at="B"), ErrorCode.NONE)
    story.tell_logs()
    story.kill("B")
    story.heal()
    story.until(lambda: story.leader() == "C", "an election")
    expect(story.write(acks=1), ErrorCode.NONE)
    story.start("AB")
    story.until(story.all_in_sync, "the return of both")
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def disk_full() -> Story:
    """12. The leader's disk is full: writes are refused with KAFKA_STORAGE_ERROR, reads continue, and
    leadership moves.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.fill_disk("A")
    expect(story.write(at="A"), ErrorCode.KAFKA_STORAGE_ERROR)
    expect(story.read(at="A"), ["r1"])
    story.until(lambda: story.leader() != "A", "another leader")
    expect(story.write(), ErrorCode.NONE)
    story.repair_disk("A")
    story.kill("A")
    story.start("A")
    return story.end_whole("A")


def flipped_bit() -> Story:
    """13. A bit flips in an old segment of the leader: it never reaches a consumer, another replica leads,
    and the records are fetched again.
    """
    return Story(segment_bytes="300").be_damaged()


STORIES = (
    leader_killed,
    follower_killed,
    both_followers_killed,
    leader_and_follower_killed,
    last_member_killed,
    last_member_killed_min_isr_1,
    last_member_killed_unclean,
    all_killed,
    all_killed_unclean,
    leader_frozen,
    leader_cut_off_with_a_client,
    leader_loses_power,
    all_lose_power,
    all_lose_power_flushed,
    leader_loses_its_disk,
    slow_follower,
    disk_full,
    flipped_bit,
    active_controller_killed,
    controllers_majority_killed,
    retry_of_an_idempotent_producer,
    retry_without_idempotence,
    divergence_over_two_epochs,
)
