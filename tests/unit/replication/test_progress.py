"""What a leader knows of a follower: when it has caught up, and when it falls behind."""

from tidelog.replication.progress import Progress


class TestProgress:
    def test_asking_for_the_end_is_being_caught_up(self) -> None:
        progress = Progress(0)
        progress.fetched(10, 10, 500)
        assert (progress.caught_up_ms, progress.end_offset, progress.seen) == (500, 10, True)

    def test_steady_writes_throw_nobody_out(self) -> None:
        """Behind at every fetch, but always with all the leader had at the fetch before."""
        progress = Progress(0)
        for number in range(1, 50):
            progress.fetched(number, number + 1, number * 100)
            assert number * 100 - progress.caught_up_ms <= 100 or number == 1

    def test_keeping_pace_at_a_distance_throws_nobody_out(self) -> None:
        """Always five fetches behind, because one brings less than what is on the way to the others."""
        progress = Progress(0)
        for number in range(1, 100):
            progress.fetched(number * 10, number * 10 + 50, number * 100)
            assert number * 100 - progress.caught_up_ms <= 1100

    def test_falling_behind(self) -> None:
        progress = Progress(0)
        for number in range(1, 50):
            progress.fetched(number, number * 10, number * 100)
        assert progress.caught_up_ms <= 100

    def test_the_first_fetch_of_an_epoch_proves_nothing_of_the_past(self) -> None:
        progress = Progress(1000)
        progress.fetched(0, 50, 2000)
        assert progress.caught_up_ms == 1000
