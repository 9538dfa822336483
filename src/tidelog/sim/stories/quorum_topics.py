"""Mode ``quorum``: three voting replicas; every acknowledgement means that a majority has the
record on disk.
"""

from tidelog.config.modes import QUORUM
from tidelog.errors import ErrorCode
from tidelog.replication.replica import Role
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import expect


class Vote(Story):
    """The replicas know the leader first."""

    def __init__(self, brokers: int = 3, **configs: str) -> None:
        super().__init__(brokers, 1, replication_mode=QUORUM, **configs)

    def elected(self) -> str:
        """The leader of the highest epoch, as the living replicas have it."""
        led = [
            (driver.replica.epoch, self._names[machine.node_id])
            for machine, driver in self.cluster.drivers(TOPIC, 0)
            if driver.replica.role is Role.LEADER
        ]
        return max(led, default=(0, "nobody"))[1]

    def await_leader(self, *, not_by: str = "A") -> str:
        self.until(lambda: self.elected() not in ("nobody", *not_by), "an election")
        self.run(100)
        leader = self.elected()
        self.tell(f"  {leader} is elected")
        return leader

    def await_return(self, of: str) -> None:
        self.until(self.all_in_sync, f"the return of {of}")
        self.run(500)
        self.tell_logs()


def leader_killed() -> Vote:
    """1. The leader is killed: the others elect one of them, writes continue, and the old leader truncates
    records that only it had.
    """
    story = Vote()
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BC")
    story.send()
    story.run(50)
    story.tell_logs()
    story.kill("A")
    story.heal()
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    story.start("A")
    story.await_return("A")
    return story


def follower_killed() -> Vote:
    """2. A follower is killed: the other two are a majority. No effect."""
    story = Vote()
    story.kill("B")
    expect(story.write(), ErrorCode.NONE)
    story.start("B")
    story.await_return("B")
    return story


def both_followers_killed() -> Vote:
    """3. Both followers are killed: the leader hears no majority and steps down. Writes stop; committed
    records stay readable.
    """
    story = Vote()
    expect(story.write(), ErrorCode.NONE)
    story.kill("BC")
    story.until(lambda: story.elected() == "nobody", "the leader's resignation")
    expect(story.write(at="A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    expect(story.read(at="A"), ["r1"])
    story.start("B")
    expect(story.write(at=story.await_leader(not_by="")), ErrorCode.NONE)
    return story


def leader_and_follower_killed() -> Vote:
    """4. The leader and a follower are killed: the third alone elects no leader, and serves what it knows to
    be committed.
    """
    story = Vote()
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.kill("AB")
    story.run(5000)
    expect(story.elected(), "nobody")
    expect(story.write(at="C"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    expect(story.read(at="C"), ["r1"])
    story.start("B")
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    return story


def all_killed() -> Vote:
    """6. All are killed, and the first one back lacks the last record: it waits for a majority, and the most
    complete replica leads.
    """
    story = Vote()
    story.kill("C")
    expect(story.write(), ErrorCode.NONE)
    story.kill("AB")
    story.start("C")
    story.run(3000)
    expect(story.elected(), "nobody")
    story.start("B")
    expect(story.await_leader(), "B")
    expect(story.write(at="B"), ErrorCode.NONE)
    story.start("A")
    story.await_return("A")
    return story


def leader_frozen() -> Vote:
    """7. The leader is frozen for 30 s: the others elect one of them. Its pending writes are never
    acknowledged, and it steps down when it sees the higher epoch.
    """
    story = Vote()
    expect(story.write(), ErrorCode.NONE)
    story.freeze("A")
    waiting = story.send(at="A")
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    story.run(28_000)
    story.thaw("A")
    expect(story.await_answer(waiting), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    story.await_return("A")
    return story


def leader_cut_off_with_a_client() -> Vote:
    """8. The leader is disconnected from all but a client: it steps down within an election timeout; the
    other side elects a leader.
    """
    story = Vote()
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BCXYZ")
    waiting = story.send(at="A")
    leader = story.await_leader()
    expect(story.await_answer(waiting), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    expect(story.write(at="A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    expect(story.write(at=leader), ErrorCode.NONE)
    story.heal()
    story.await_return("A")
    return story


def all_lose_power() -> Vote:
    """9. All three lose power at once: an acknowledgement means synced on a majority, so nothing is lost."""
    story = Vote()
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.power_off("ABC")
    story.run(500)
    story.start("ABC")
    leader = story.await_leader(not_by="")
    story.until(story.all_in_sync, "the return of everybody")
    story.run(500)
    expect(story.read(at=leader), ["r1", "r2", "r3"])
    return story


def leader_loses_its_disk() -> Vote:
    """10. The leader returns with an empty disk, and the only other replica lacks the last record: the two
    are no majority, because a replica that lost its data does not vote until it is readmitted.
    """
    story = Vote()
    story.kill("C")
    expect(story.write(), ErrorCode.NONE)
    story.kill("B")
    story.lose_disk("A")
    story.start("AC")
    story.run(5000)
    expect(story.elected(), "nobody")
    story.start("B")
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    story.await_return("A")
    expect(story.read(), ["r1", "r2"])
    return story


def slow_follower() -> Vote:
    """11. A slow follower: the other two are a majority. No effect."""
    story = Vote()
    story.slow_down("A", "B", 400)
    expect(story.write(), ErrorCode.NONE)
    story.heal()
    story.await_return("B")
    return story


def disk_full() -> Vote:
    """12. The leader's disk is full: it resigns, and another replica is elected."""
    story = Vote()
    expect(story.write(), ErrorCode.NONE)
    story.fill_disk("A")
    expect(story.write(), ErrorCode.KAFKA_STORAGE_ERROR)
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    return story


def flipped_bit() -> Vote:
    """13. A bit flips in an old segment of the leader: it never reaches a consumer, another replica is
    elected, and the records are fetched again.
    """
    return Vote(segment_bytes="300").be_damaged()


def active_controller_killed() -> Vote:
    """14. The active controller is killed: no effect on elections."""
    story = Vote()
    story.kill("X")
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    return story


def controllers_majority_killed() -> Vote:
    """15. A majority of the controllers is killed, and then the leader: the other replicas elect one. The
    controllers record it when they are back.
    """
    story = Vote()
    story.kill("XY")
    story.run(3000)
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    story.start("X")
    story.until(lambda: story.leader() in ("B", "C"), "the controllers' word for it")
    return story


def retry_of_an_idempotent_producer() -> Vote:
    """16. A client that got no response sends its record again, to the next leader: it is there once."""
    story = Vote()
    story.deafen_client("A")
    sent = story.send(idempotent=True)
    story.run(300)
    story.kill("A")
    leader = story.await_leader()
    expect(story.await_answer(story.send_again(sent, leader)), ErrorCode.NONE)
    expect(story.read(at=leader), ["r1"])
    return story


def two_of_five_killed() -> Vote:
    """Five replicas tolerate 2 failures: writes continue with any three, and stop with two."""
    story = Vote(5)
    expect(story.write(), ErrorCode.NONE)
    story.kill("AB")
    leader = story.await_leader(not_by="AB")
    expect(story.write(at=leader), ErrorCode.NONE)
    story.kill("C" if leader != "C" else "D")
    story.until(lambda: story.elected() == "nobody", "the leader's resignation")
    expect(story.write(at=leader), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    story.start("AB")
    expect(story.write(at=story.await_leader(not_by="")), ErrorCode.NONE)
    return story


STORIES = (
    leader_killed,
    follower_killed,
    both_followers_killed,
    leader_and_follower_killed,
    all_killed,
    leader_frozen,
    leader_cut_off_with_a_client,
    all_lose_power,
    leader_loses_its_disk,
    slow_follower,
    disk_full,
    flipped_bit,
    active_controller_killed,
    controllers_majority_killed,
    retry_of_an_idempotent_producer,
    two_of_five_killed,
)
