"""Which other nodes this one has heard, lost, or seen to have ended, and what that says about the controllers
and about leaders.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from tidelog.replication.voters import VoterSet
from tidelog.services import Services


class Sightings:
    def __init__(
        self, me: int, services: Services, controllers: Callable[[], VoterSet], session_ms: int
    ) -> None:
        """``controllers``: those that vote now."""
        self._me = me
        self._services = services
        self._controllers = controllers
        self._session_ms = session_ms
        self._lost_for_ms = 2 * session_ms
        self._heard_ms: dict[int, int] = {}  # when each peer last said anything
        # When their connections closed; nothing was heard of them since.
        self._silent_since_ms: dict[int, int] = {}
        # Those of them for which that was a moment ago: what the metadata says of them may be over. Later it
        # is not: the controllers have had their time, and know more than who may just have no business with
        # that broker. Where there are no controllers, those that have ended stay among them. Changed in
        # place: others hold on to it.
        self.lost: set[int] = set()
        self._dead_ms: dict[int, int] = {}  # peers that had ended then, for sure; not heard of since

    def heard(self, peer: int) -> None:
        self._heard_ms[peer] = self._services.uptime_ms()
        if peer in self._silent_since_ms:
            del self._silent_since_ms[peer]
            self.lost.discard(peer)
            self._dead_ms.pop(peer, None)

    def went_silent(self, peer: int) -> None:
        if peer not in self._silent_since_ms:
            self._silent_since_ms[peer] = self._services.uptime_ms()
            self.lost.add(peer)

    def ended(self, peer: int) -> bool:
        """Its process has ended for sure; whether that is so, as far as it was not heard since."""
        if peer not in self._silent_since_ms:
            return False
        self._dead_ms[peer] = self._services.uptime_ms()
        return True

    def look(self, now_ms: int, orphaning: AbstractSet[int]) -> None:
        self.lost.update(orphaning)
        for peer in self.lost - orphaning:
            if now_ms - self._silent_since_ms[peer] >= self._lost_for_ms:
                self.lost.discard(peer)

    def last_heard_ms(self, peer: int, otherwise_ms: int) -> int:
        return self._heard_ms.get(peer, otherwise_ms)

    def silent(self) -> list[tuple[int, bool]]:
        """Each peer that is silent, and whether it has ended."""
        return [(peer, peer in self._dead_ms) for peer in sorted(self._silent_since_ms)]

    # --- the controllers ------------------------------------------------------------------------------------

    @property
    def has_deciders(self) -> bool:
        """Whether enough controllers are there to decide anything, as far as closed connections tell."""
        controllers = self._controllers()
        return len(controllers.ids - self._silent_since_ms.keys()) >= controllers.majority

    def may_be_decided(self) -> bool:
        """Whether the other controllers may decide something without this node: not when so many of them have
        ended that the rest is no majority. One that started since gives this broker a whole session before it
        takes it for dead; so long what was seen holds.
        """
        controllers = self._controllers()
        return len(self._not_ended(controllers) - {self._me}) >= controllers.majority

    def orphaning(self) -> AbstractSet[int]:
        """Brokers that have ended while most of the controllers had, too: nobody is there to say so. They
        lead nothing any more, and will not before a controller has let them in.
        """
        controllers = self._controllers() if self._dead_ms else None
        if controllers is None or len(self._not_ended(controllers)) >= controllers.majority:
            return frozenset()
        return self._dead_ms.keys()

    def _not_ended(self, controllers: VoterSet) -> AbstractSet[int]:
        """Controllers, but for those that were seen to have ended."""
        seen_ms = self._services.uptime_ms() - self._session_ms
        dead = {peer for peer, dead_ms in self._dead_ms.items() if dead_ms > seen_ms}
        return controllers.ids - dead
