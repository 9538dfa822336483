"""What the stories of mode ``primary-backup`` have in common: A is the primary, B its backup."""

from tidelog.controller import leadership, reassignment
from tidelog.controller.rules import Rulebook
from tidelog.controller.successions import acting_leader
from tidelog.errors import ErrorCode
from tidelog.sim.checkers.promises import Place
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import expect


def group(copies: int, **configs: str) -> Story:
    settings = {"replication_mode": "primary-backup", "min_insync_replicas": str(copies), **configs}
    return Story(2, 1, **settings)


def serves(story: Story) -> bool:
    return acting_leader(story.partition()) >= 0


def is_whole(story: Story) -> bool:
    return serves(story) and story.all_in_sync()


def is_back(story: Story) -> bool:
    """Whole again, after a leadership that has ended."""
    return story.is_led_anew(0) and is_whole(story)


def is_missed(story: Story) -> bool:
    return not serves(story)


def both_killed(story: Story) -> Story:
    expect(story.write(), ErrorCode.NONE)
    story.run(3500)
    story.kill("AB")
    story.until(lambda: is_missed(story), "the end of the leadership")
    expect(story.write(), None)
    story.start("B")
    story.run(3000)
    expect(story.write(at="B"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    expect(story.read(at="B"), ["r1"])
    story.start("A")
    story.until(lambda: is_whole(story), "the return of A")
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def frozen(story: Story) -> Story:
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.freeze("A")
    waiting = story.send()
    story.until(lambda: is_missed(story), "the end of the leadership")
    expect(story.read(at="B"), ["r1"])
    story.run(26_000)
    story.thaw("A")
    # Accepted by a primary that does not know yet that it was missed: no other replica can have accepted
    # writes.
    story.await_answer(waiting)
    story.until(lambda: is_whole(story), "the return of A")
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def disk_full(story: Story) -> Story:
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.fill_disk("A")
    expect(story.write(), ErrorCode.KAFKA_STORAGE_ERROR)
    story.until(lambda: is_missed(story), "the end of the leadership")
    expect(story.read(at="B"), ["r1"])
    story.repair_disk("A")
    story.kill("A")
    story.start("A")
    story.until(lambda: is_whole(story), "the return of A")
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def controllers_killed(story: Story) -> Story:
    story.kill("X")
    expect(story.write(), ErrorCode.NONE)
    story.kill("Y")
    story.run(5000)
    expect(story.write(), ErrorCode.NONE)
    expect(story.read(), ["r1", "r2"])
    return story


def promote(story: Story, letter: str) -> None:
    story.tell(f"the operator promotes {letter}")
    node = story.machine(letter).node_id
    replicas = story.partition().replicas
    order = [node, *(replica for replica in replicas if replica != node)]
    rules = Rulebook(story.cluster.config)
    story.cluster.decide(lambda image: reassignment.begin(image, TOPIC, 0, order, rules.at(image)))
    story.until(lambda: story.partition().replicas == tuple(order), "the promotion")


def force(story: Story) -> None:
    story.tell("the operator gives up what cannot be had")
    rules, checker = Rulebook(story.cluster.config), story.cluster.checker
    checker.may_force(Place(checker.metadata.newest.topics[TOPIC], 0))
    story.cluster.decide(lambda image: leadership.elect(image, TOPIC, 0, rules.at(image), unclean=True))
