"""Files beside the records that are damaged while a process is dead: indexes, histories of epochs, votes and
voter sets. None of them is worth more than the records.
"""

from collections.abc import Callable

from tidelog.errors import ErrorCode
from tidelog.log.layout import EPOCHS_FILE
from tidelog.replication import ballot_book, voter_file
from tidelog.sim.checkers.batches import entries
from tidelog.sim.machine import DATA
from tidelog.sim.stories.quorum_topics import Vote
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import StoryFailed, expect

CHECKPOINTED_MS = 3500
PARTITION = f"{DATA}/{TOPIC}-0"


def _story() -> Story:
    """With segments of five records, and an index entry for every third."""
    return Story(segment_bytes="400", index_interval_bytes="170")


def _write(story: Story, count: int) -> None:
    for _ in range(count):
        expect(story.write(), ErrorCode.NONE)


def _read_from(story: Story, offset: int, at: str) -> str:
    """The first record that a consumer gets from there."""
    reply = story.read_at(at, offset)
    found = "nothing" if reply.error else next(iter(entries(reply.records))).value.decode()
    story.tell(f"read at {at} from offset {offset}: {found}")
    return found


def _change(story: Story, letter: str, path: str, change: Callable[[bytes], bytes]) -> None:
    disk = story.machine(letter).disk
    old = disk.contents(path.rpartition("/")[0]).get(path, b"")
    new = change(old)
    if new == old:
        raise StoryFailed(f"{path} is not as the story needs it: {old!r}")
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write_at(0, new)


# --- beside the log -----------------------------------------------------------------------------------------


def _come_back_and_lead(story: Story, letter: str) -> None:
    story.start(letter)
    story.until(story.all_in_sync, f"the return of {letter}")
    if story.leader() != letter:
        story.prefer(letter)


def index_entry_that_skips_a_record() -> Story:
    """A bit flips in an index: the entry of offset 3 now names offset 2. A reader that continues at 2 does
    not get 3: the entry does not match its batch, and the index is rebuilt.
    """
    story = _story()
    _write(story, 8)
    story.run(CHECKPOINTED_MS)
    story.kill("A")
    story.until(lambda: story.leader() != "A", "the end of the leadership")
    story.tell("a bit flips on the disk of A, in the index of the first segment")
    _change(story, "A", _index(), lambda old: old[:3] + bytes([old[3] ^ 1]) + old[4:])
    _come_back_and_lead(story, "A")
    expect(_read_from(story, 2, "A"), "r3")
    return story.end()


def index_entry_that_blames_records() -> Story:
    """A bit flips in an index, and its entry points into the middle of a batch. The records do not count as
    damaged: A continues to lead, and nothing is truncated or copied.
    """
    story = _story()
    _write(story, 8)
    story.run(CHECKPOINTED_MS)
    story.kill("A")
    story.until(lambda: story.leader() != "A", "the end of the leadership")
    story.tell("a bit flips on the disk of A, in the index of the first segment")
    _change(story, "A", _index(), lambda old: old[:7] + bytes([old[7] ^ 1]) + old[8:])
    _come_back_and_lead(story, "A")
    epoch = story.partition().leader_epoch
    expect(_read_from(story, 3, "A"), "r4")
    story.run(3000)
    expect((story.leader(), story.partition().leader_epoch), ("A", epoch))
    return story.end()


def _index() -> str:
    return f"{PARTITION}/{0:020d}.index"


def history_with_a_wrong_digit() -> Story:
    """A dies with an uncommitted record; B leads and writes another in its place. C returns with a wrong
    digit in its leader epoch history, by which A's epoch ended one record later. When C leads, A does not
    keep its record: C has rebuilt its history from the batches.
    """
    story = _story()
    _write(story, 2)
    story.cut("A", "BC")
    story.send()
    story.run(50)
    story.kill("A")
    story.heal()
    story.until(lambda: story.leader() not in ("A", "nobody"), "an election")
    if story.leader() != "B":
        raise StoryFailed("B does not lead")
    _write(story, 5)
    story.run(CHECKPOINTED_MS)
    story.kill("C")
    story.tell("a bit flips on the disk of C, in the history of epochs")
    _change(story, "C", f"{PARTITION}/{EPOCHS_FILE}", lambda old: old.replace(b" 2", b" 3", 1))
    story.start("C")
    story.until(lambda: story.in_sync() == "BC", "the return of C")
    story.kill("B")
    story.until(lambda: story.leader() == "C", "an election")
    story.start("A")
    story.until(lambda: "A" in story.in_sync(), "the return of A")
    story.start("B")
    story.until(story.all_in_sync, "the return of B")
    story.prefer("A")
    expect(story.read(at="A"), ["r1", "r2", "r4", "r5", "r6", "r7", "r8"])
    return story.end()


def history_damaged_beside_a_torn_write() -> Story:
    """The last follower that may lead was killed within a write, and its leader epoch history is damaged: the
    torn write is truncated, the history is rebuilt from the batches, and it leads.
    """
    story = Story(flush_messages="1")
    _write(story, 1)
    story.kill("C")
    story.until(lambda: "C" not in story.in_sync(), "the departure of C")
    _write(story, 1)
    story.run(CHECKPOINTED_MS)
    story.kill("B")
    story.until(lambda: story.in_sync() == "A", "the departure of B")
    story.freeze("A")
    story.tell("B was killed within a write, and a bit flips in its history of epochs")
    story.tear("B")
    _change(story, "B", f"{PARTITION}/{EPOCHS_FILE}", lambda old: b"1" + old[1:])
    story.start("B")
    story.until(lambda: story.leader() == "B", "an election")
    expect(story.read(), ["r1", "r2"])
    story.thaw("A")
    story.start("C")
    story.until(story.all_in_sync, "the return of A and C")
    return story.end()


# --- votes --------------------------------------------------------------------------------------------------


def _two_of_three_hold_the_newest(story: Vote) -> None:
    """C missed the second record; B is killed, and A frozen."""
    expect(story.write(), ErrorCode.NONE)
    story.kill("C")
    story.run(500)
    expect(story.write(), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    story.kill("B")
    story.freeze("A")


def voters_damaged() -> Vote:
    """The voter file of B is garbage, but its log is intact. B does not guess: together with C it elects no
    leader while A is frozen. Then A readmits it, and B votes.
    """
    story = Vote()
    _two_of_three_hold_the_newest(story)
    story.tell("the list of voters on B is garbage")
    _change(story, "B", f"{PARTITION}/{voter_file.FILE_NAME}", lambda old: b"garbage")
    story.start("BC")
    story.run(5000)
    expect(story.elected(), "A")
    story.thaw("A")
    story.await_return("B")
    story.kill("A")
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    return story


def votes_damaged() -> Vote:
    """The last vote in the file of B is damaged, and B was only killed: no write can be torn, so B refuses to
    start with an older vote. An operator moves the file away; B waits until A readmits it.
    """
    story = Vote()
    _two_of_three_hold_the_newest(story)
    story.tell("a bit flips on the disk of B, in the last line of its votes")
    path = f"{DATA}/{ballot_book.FILE_NAME}"
    _change(story, "B", path, lambda old: old[:-3] + bytes([old[-3] ^ 1]) + old[-2:])
    story.start("BC")
    expect(story.machine("B").alive, False)
    story.tell("B does not start; an operator moves the file away")
    story.machine("B").disk.remove(path)
    story.start("B")
    story.run(5000)
    expect(story.elected(), "A")
    story.thaw("A")
    story.await_return("B")
    story.kill("A")
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    return story


STORIES = (
    index_entry_that_skips_a_record, index_entry_that_blames_records, history_with_a_wrong_digit,
    history_damaged_beside_a_torn_write, voters_damaged, votes_damaged,
)  # fmt: skip
