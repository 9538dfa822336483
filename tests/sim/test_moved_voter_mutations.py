"""Controllers that know less of the voters of a moving partition than they should: a story notices."""

from collections.abc import Callable, Iterator

import pytest

from tidelog.broker.quorum.voters import PartitionVoters
from tidelog.controller.image import PartitionImage
from tidelog.controller.successions import quorum
from tidelog.sim.stories import moved_voters
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def rely_on_the_last_set_that_was_told(patch: pytest.MonkeyPatch) -> None:
    """No leader has written another set since."""

    def no_sets(partition: PartitionImage, voters: frozenset[int]) -> Iterator[frozenset[int]]:
        return iter(())

    patch.setattr(quorum, "_next_sets", no_sets)


def count_only_those_that_remember(patch: pytest.MonkeyPatch) -> None:
    """Replicas that come and have lost data never voted."""

    def known_voters(partition: PartitionImage) -> frozenset[int]:
        return frozenset(partition.replicas).difference(partition.adding) | partition.remember

    patch.setattr(PartitionImage, "known_voters", property(known_voters))
    patch.setattr(PartitionVoters, "is_known", lambda self, partition: True)


def change_voters_untold(patch: pytest.MonkeyPatch) -> None:
    """A leader goes on whether or not the controllers have heard of its last step."""
    patch.setattr(PartitionVoters, "is_known", lambda self, partition: True)


MUTATIONS: dict[Patch, Callable[[], object]] = {
    rely_on_the_last_set_that_was_told: moved_voters.half_lose_their_tails,
    count_only_those_that_remember: moved_voters.half_lose_their_tails,
    change_voters_untold: moved_voters.stops_without_controllers,
}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.__name__)
def test_mutation_is_noticed(mutation: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    with pytest.raises(StoryFailed):
        MUTATIONS[mutation]()
