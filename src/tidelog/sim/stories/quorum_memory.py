"""Mode ``quorum``: replicas that lose what they acknowledged, and when they vote again."""

from tidelog.controller import leadership, reassignment
from tidelog.controller.rules import Rulebook
from tidelog.errors import ErrorCode
from tidelog.replication.attachments.voter import Elected
from tidelog.sim.checkers.damage import Damage
from tidelog.sim.checkers.promises import Place
from tidelog.sim.machine import DATA
from tidelog.sim.stories.quorum_topics import Vote
from tidelog.sim.story import TOPIC
from tidelog.sim.telling import expect, spoken


class Memory(Vote):
    def place(self) -> Place:
        return Place(self.cluster.checker.metadata.newest.topics[TOPIC], 0)

    def remove_log(self, letters: str) -> None:
        """While the processes are dead."""
        self.tell(f"somebody removes the partition's directory of {spoken(letters)}")
        for letter in letters:
            machine = self.machine(letter)
            directory = f"{DATA}/{TOPIC}-0"
            for path in machine.disk.contents(directory):
                machine.disk.remove(path)
            machine.disk.remove_directory(directory)
            self.cluster.checker.promise(self.place()).lost(self.place(), machine.node_id, 0, for_good=True)

    def drop(self, letter: str, record: int) -> None:
        """Damage is found in a record while the process runs, and the record is truncated."""
        driver, place = self.driver(letter), self.place()
        self.tell(f"{letter} finds its record at {record} damaged")
        path = f"{DATA}/{TOPIC}-0/gone.log"
        damage = Damage(driver.replica.me, place.key, self.machine(letter).disk, path, 0, record)
        self.cluster.checker.damaged(place, damage)
        driver.damage.found(record, "a bit flipped")

    def who_votes(self, letter: str) -> str:
        """As the replica has it; none before its log is open."""
        node = self.machine(letter).node_id
        found = [
            driver.voter for machine, driver in self.cluster.drivers(TOPIC, 0) if machine.node_id == node
        ]
        return "".join(self._list(voter.election.voters.ids) for voter in found if isinstance(voter, Elected))

    def recover(self) -> None:
        """By an operator's decision; the CLI puts the longest log first."""
        rules = Rulebook(self.cluster.config)
        self.tell("the operator gives up what nobody there holds")
        self.cluster.checker.may_force(self.place())
        self.cluster.decide(lambda image: leadership.elect(image, TOPIC, 0, rules.at(image), unclean=True))

    def move(self, letters: str) -> None:
        rules, target = Rulebook(self.cluster.config), self.nodes(letters)
        self.tell(f"move the partition to {spoken(letters)}")
        self.cluster.decide(lambda image: reassignment.begin(image, TOPIC, 0, target, rules.at(image)))

    def first_is(self, letter: str) -> bool:
        return self.partition().target[0] == self.machine(letter).node_id

    def expect_nobody(self) -> None:
        self.run(5000)
        expect(self.elected(), "nobody")


def two_return_empty() -> Memory:
    """Two of three return with empty disks and are restarted once more, while the third, which is intact, is
    down: they do not elect each other, and the third keeps everything. With it there is still no majority of
    intact voters; an operator decides.
    """
    story = Memory()
    expect(story.write(), ErrorCode.NONE)
    story.run(3500)
    story.kill("A")
    for letter in "BC":
        story.lose_disk(letter)
    story.start("BC")
    story.expect_nobody()
    story.kill("BC")
    story.start("BC")
    story.expect_nobody()
    story.start("A")
    story.expect_nobody()
    expect(story.read(at="A"), ["r1"])
    story.recover()
    story.await_leader(not_by="")
    story.await_return("B and C")
    expect(story.write(), ErrorCode.NONE)
    expect(story.read(), ["r1", "r2"])
    return story


def two_directories_removed() -> Memory:
    """The partition's directory is removed on two of three brokers: ballots without a log show the loss, also
    after a second restart, and the two elect no leader.
    """
    story = Memory()
    expect(story.write(), ErrorCode.NONE)
    story.run(3500)
    story.kill("ABC")
    story.remove_log("BC")
    story.start("BC")
    story.expect_nobody()
    story.kill("BC")
    story.start("BC")
    story.expect_nobody()
    story.start("A")
    story.expect_nobody()
    expect(story.read(at="A"), ["r1"])
    return story


def one_directory_removed() -> Memory:
    """The partition's directory is removed on one of three brokers: the other two elect a leader, and readmit
    it.
    """
    story = Memory()
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    story.remove_log("A")
    story.await_leader()
    story.start("A")
    story.until(lambda: not story.is_relied_on("A"), "the number of the loss")
    story.await_return("A")
    expect(story.read(), ["r1"])
    return story


def loses_twice_in_one_process() -> Memory:
    """A readmitted replica loses a record again in the same process, and has not fetched it when the leader
    dies: it does not help to elect a replica that lacks the record, too. Readmitted again, it counts.
    """
    story = Memory()
    expect(story.write(), ErrorCode.NONE)
    story.drop("B", 0)
    story.until(lambda: not story.is_relied_on("B"), "the number of the loss")
    story.await_return("B")
    story.cut("C", "AB")
    expect(story.write(), ErrorCode.NONE)
    last = story.driver("B").log.end_offset - 1
    story.drop("B", last)
    story.until(lambda: story.driver("B").log.end_offset == last, "the repair")
    story.cut("A", "B")
    story.run(1000)
    story.kill("AB")
    story.heal()
    story.start("B")
    story.expect_nobody()
    story.start("A")
    story.until(lambda: story.elected() != "nobody", "an election")
    story.await_return("B")
    expect(story.read(at=story.elected()), ["r1", "r2"])
    story.kill("A")
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    return story


def readmitted_while_cut_off() -> Memory:
    """A replica is readmitted, but disconnected before it has the record that says so. Another one dies: the
    first one votes, since the controllers say that it counts.
    """
    story = Memory()
    expect(story.write(), ErrorCode.NONE)
    story.lose_disk("C")
    story.start("C")
    story.until(lambda: not story.is_relied_on("C"), "the number of the loss")
    story.until(lambda: story.who_votes("C") == "A B", "the first half of the readmission")
    story.cut("C", "AB")
    story.until(story.all_in_sync, "the other half")
    story.kill("B")
    story.until(lambda: story.elected() == "nobody", "the leader's resignation")
    story.heal()
    expect(story.write(at=story.await_leader(not_by="")), ErrorCode.NONE)
    return story


def loses_power_during_a_move() -> Memory:
    """Without syncing, the leader loses power during a move, and only one of the two others is up, which
    lacks the last record: new replicas do not count yet, so the two intact ones are still a majority, and the
    leader does not help to elect the one that lacks the record.
    """
    story = Memory(4, flush_messages="1000")
    story.move("ABC")
    story.until(lambda: len(story.partition().replicas) == 3, "the end of the move")
    story.kill("D")
    story.move("ABD")
    story.cut("C", "AB")
    expect(story.write(), ErrorCode.NONE)
    story.kill("B")
    story.power_off("A")
    story.heal()
    story.start("A")
    story.expect_nobody()
    story.start("B")
    expect(story.await_leader(), "B")
    expect(story.read(at="B"), ["r1"])
    return story


def majority_loses_its_tail() -> Memory:
    """Without syncing, two of three lose power and the unsynced end of their logs, and the third is down:
    they vote with what they have. The loss is documented. A replica that returned empty never counts that
    way, even if it loses power, too.
    """
    story = Memory(flush_messages="1000")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    expect(story.write(), ErrorCode.NONE)
    story.kill("C")
    story.power_off("AB")
    story.start("AB")
    story.await_leader(not_by="")
    story.start("C")
    story.await_return("C")
    story.kill("A")
    story.lose_disk("B")
    story.start("B")
    story.until(lambda: not story.is_relied_on("B"), "the number of the loss")
    story.power_off("BC")
    story.start("BC")
    story.expect_nobody()
    story.start("A")
    story.expect_nobody()
    expect(story.first_is("A"), True)
    story.recover()
    story.await_leader(not_by="")
    story.await_return("B and C")
    return story


def voter_sets_are_synced() -> Memory:
    """Without syncing, a replica is readmitted, and all lose power at once: the voter set was synced, so all
    return with the same set.
    """
    story = Memory(flush_messages="1000")
    story.lose_disk("C")
    story.start("C")
    story.until(lambda: not story.is_relied_on("C"), "the number of the loss")
    story.until(story.all_in_sync, "the return of C")
    story.power_off("ABC")
    story.start("ABC")
    story.await_leader(not_by="")
    expect({story.who_votes(letter) for letter in "ABC"}, {"A B C"})
    story.await_return("everybody")
    return story


STORIES = (
    two_return_empty,
    two_directories_removed,
    one_directory_removed,
    loses_twice_in_one_process,
    readmitted_while_cut_off,
    loses_power_during_a_move,
    majority_loses_its_tail,
    voter_sets_are_synced,
)
