"""Leaders that the controllers may have replaced."""

from unit.replication.replica_pair import FOLLOWER, LEADER, Pair


class TestSuccessors:
    """Who is cut off from the controllers serves on while everybody who could replace it follows it."""

    def test_a_quiet_follower_still_follows(self) -> None:
        pair = Pair()
        leader = pair.at(LEADER, pair.keys[0])
        leader.successors.candidates = frozenset({FOLLOWER})
        pair.clock.advance(5000)
        assert leader.successors.all_follow()

    def test_under_load_too(self) -> None:
        pair = Pair()
        leader = pair.at(LEADER, pair.keys[0])
        leader.successors.candidates = frozenset({FOLLOWER})
        pair.clock.advance(400)
        for _ in range(20):
            pair.append()
            pair.clock.advance(7)
            assert leader.successors.all_follow()

    def test_not_one_that_is_silent(self) -> None:
        pair = Pair()
        leader = pair.at(LEADER, pair.keys[0])
        leader.successors.candidates = frozenset({FOLLOWER})
        pair.deaf = True
        pair.clock.advance(3000)
        assert not leader.successors.all_follow()

    def test_not_one_that_has_turned_to_another_leader(self) -> None:
        pair = Pair(2)
        leader = pair.at(LEADER, pair.keys[0])
        leader.successors.candidates = frozenset({FOLLOWER})
        pair.at(FOLLOWER, pair.keys[0]).follow(3, 7, (1, 2), 3)
        pair.clock.advance(3000)
        assert not leader.successors.all_follow()
        other = pair.at(LEADER, pair.keys[1])
        other.successors.candidates = frozenset({FOLLOWER})
        assert other.successors.all_follow()

    def test_what_all_of_them_hold(self) -> None:
        pair = Pair()
        leader = pair.at(LEADER, pair.keys[0])
        assert leader.successors.held_by_all() == 0
        pair.append()
        pair.clock.advance(400)
        held = leader.log.end_offset
        assert leader.successors.held_by_all() == held
        pair.deaf = True
        pair.append()
        pair.clock.advance(400)
        assert leader.successors.held_by_all() == held < leader.log.end_offset

    def test_one_that_may_be_forced_to_lead_counts(self) -> None:
        """Nothing was heard of it, and it is no member."""
        pair = Pair()
        leader = pair.at(LEADER, pair.keys[0])
        leader.lead(0, (1, 2, 3), (1, 2), 1)
        pair.append()
        pair.clock.advance(400)
        assert leader.successors.held_by_all() == leader.log.end_offset
        assert leader.successors.held_by_all(by_hand=True) == 0

    def test_no_replica_can_replace_the_last_one(self) -> None:
        pair = Pair()
        leader = pair.at(LEADER, pair.keys[0])
        leader.lead(1, (1, 2), (1,), 1)
        assert leader.successors.all_follow()

    def test_not_one_that_said_so_long_ago(self) -> None:
        """The leader was frozen: what has waited in its socket is no news."""
        pair = Pair()
        leader, server = pair.at(LEADER, pair.keys[0]), pair.hosts[LEADER].fetch_server
        leader.successors.candidates = frozenset({FOLLOWER})
        pair.clock.advance(5000)
        (session,) = server._sessions.values()
        ask, generation = pair.asks()[-1], session.generation
        pair.deaf = True
        pair.clock.advance(3000)
        server.ask(ask._replace(generation=generation + 1, since=generation, items=[]))
        assert pair.clock.uptime_ms() - session.heard_ms < 10
        assert not leader.successors.all_follow()

    def certain(self, pair: Pair) -> list[bool]:
        """What is said of the leader, later."""
        told: list[bool] = []
        leader = pair.at(LEADER, pair.keys[0])
        leader.successors.candidates = frozenset({FOLLOWER})
        leader.successors.when_all_follow(told.append)
        return told

    def test_one_round_trip_makes_it_certain(self) -> None:
        pair = Pair()
        pair.clock.advance(5000)
        before = len(pair.asks())
        told = self.certain(pair)
        assert told == []
        pair.clock.advance(50)
        assert told == [True]
        assert len(pair.asks()) == before + 1, "it was prompted"
        pair.clock.advance(2000)
        assert told == [True]

    def test_under_load_it_becomes_certain(self) -> None:
        pair = Pair()
        pair.one_way_ms = 5
        pair.clock.advance(1000)
        told = self.certain(pair)
        for _ in range(20):
            pair.append()
            pair.clock.advance(2)
        assert told == [True]

    def test_a_request_that_was_under_way_makes_nothing_certain(self) -> None:
        pair = Pair()
        server = pair.hosts[LEADER].fetch_server
        pair.clock.advance(5000)
        (session,) = server._sessions.values()
        ask, generation = pair.asks()[-1], session.generation
        pair.deaf = True
        told = self.certain(pair)
        server.ask(ask._replace(generation=generation + 1, since=generation, items=[]))
        assert told == []
        pair.clock.advance(1500)
        assert told == [False]

    def test_a_follower_that_has_turned_away_makes_nothing_certain(self) -> None:
        pair = Pair(2)
        pair.clock.advance(1000)
        pair.at(FOLLOWER, pair.keys[0]).follow(3, 7, (1, 2), 3)
        told = self.certain(pair)
        pair.clock.advance(1500)
        assert told == [False]

    def test_who_has_no_successors_is_certain(self) -> None:
        pair = Pair()
        told: list[bool] = []
        leader = pair.at(LEADER, pair.keys[0])
        leader.lead(1, (1, 2), (1,), 1)
        leader.successors.when_all_follow(told.append)
        assert told == [True]

    def test_before_it_has_heard_anything(self) -> None:
        pair = Pair()
        leader = pair.at(LEADER, pair.keys[0])
        assert not leader.successors.all_follow()
        pair.clock.advance(400)
        assert leader.successors.all_follow()
