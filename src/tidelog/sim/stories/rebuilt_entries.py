"""Damaged indexes of aborted transactions, on disks that fail while the index is rebuilt."""

from errno import EIO

from tidelog.sim.stories.late_markers import OldProducer, read_committed
from tidelog.sim.story import Story
from tidelog.sim.telling import expect


def rebuilding_that_failed() -> Story:
    """A bit of the index of aborted transactions is flipped at A. The reader that finds it has the index
    rebuilt, and the disk fails the write. The next reader rebuilds it again, and does not take what is there
    for the whole list.
    """
    story = Story()
    producer = OldProducer(story)
    for _ in range(2):
        producer.write()
        producer.end(commits=False)
    story.run(200)
    disk = story.machine("A").disk
    (index,) = (path for path in disk.paths() if path.endswith("/t-0/00000000000000000000.txnindex"))
    story.tell("a bit of the index of aborted transactions flips at A")
    disk.flip(index, 20, 3)
    story.tell("the disk of A fails each write")
    disk.failing["write"] = EIO
    expect(read_committed(story), [])
    story.tell("the disk of A works again")
    disk.failing.clear()
    expect(read_committed(story), [])
    return story.end()


STORIES = (rebuilding_that_failed,)
