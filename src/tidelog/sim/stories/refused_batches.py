"""A producer has several requests in flight: B refuses the first as a follower, and leads when the others
arrive.
"""

from tidelog.errors import ErrorCode
from tidelog.sim.story import Sent, Story
from tidelog.sim.telling import expect

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def known_producer() -> Story:
    """B refuses a batch, becomes leader, and gets the next batch of the same producer: it refuses this one in
    the same way, and the producer sends both again.
    """
    story = Story()
    expect(story.write(idempotent=True), ErrorCode.NONE)
    return _race(story, ["r1"])


def first_batches() -> Story:
    """The same with a producer that B has never heard of: its first batch is not the one that B may take."""
    return _race(Story(), [])


def retry_overtakes() -> Story:
    """The producer sends the first batch again before the last of the following ones has arrived: the last is
    refused as well, because the one before it was.
    """
    story = Story()
    story.kill("A")
    first = _refused(story)
    story.until(lambda: story.leader() == "B", "an election")
    story.run(50)
    second = _refused(story)
    expect(story.await_answer(story.send_again(first, "B")), ErrorCode.NONE)
    third = _refused(story)
    for sent in (second, third):
        expect(story.await_answer(story.send_again(sent, "B")), ErrorCode.NONE)
    expect(story.read(), ["r1", "r2", "r3"])
    return story.end()


def _race(story: Story, acknowledged: list[str]) -> Story:
    story.kill("A")
    refused = [_refused(story)]
    story.until(lambda: story.leader() == "B", "an election")
    story.run(50)
    refused += [_refused(story), _refused(story)]
    for sent in refused:
        expect(story.await_answer(story.send_again(sent, "B")), ErrorCode.NONE)
    expect(story.read(), acknowledged + [sent.name for sent in refused])
    return story.end()


def _refused(story: Story) -> Sent:
    """A batch that the producer sent before it heard of any refusal."""
    sent = story.send(at="B", idempotent=True)
    expect(story.await_answer(sent), NOT_LEADER)
    return sent


STORIES = (known_producer, first_batches, retry_overtakes)
