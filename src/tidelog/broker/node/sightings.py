"""Which other nodes this node has heard from, has lost, or knows to have ended; and what follows from that
for controllers and leaders.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from tidelog.broker.node.lifecycle import relied_on_ms
from tidelog.replication.voters import VoterSet
from tidelog.services import Services


class Sightings:
    def __init__(
        self, me: int, services: Services, controllers: Callable[[], VoterSet], session_ms: int
    ) -> None:
        """``controllers``: the current voters of the metadata log."""
        self._me = me
        self._services = services
        self._controllers = controllers
        self._session_ms = session_ms
        self._lost_for_ms = 2 * session_ms
        # For how long a closed connection to a controller counts. The controller itself counts it for
        # ``_lost_for_ms`` (:meth:`silent`). What it decides then matters until a session that an earlier
        # controller gave is over. The rest is for a controller that notices the closing later.
        self._closed_for_ms = 2 * self._lost_for_ms
        self._heard_ms: dict[int, int] = {}  # when the last message of each peer arrived
        # When the connections of silent peers closed. No message has arrived since.
        self._silent_since_ms: dict[int, int] = {}
        self._closed_ms: dict[int, int] = {}  # when connections of each of them last closed
        # Silent peers whose connections closed a moment ago: the metadata about them may be out of date.
        # After a while it is trusted again, because the controllers had time to react, and a connection may
        # also be closed for lack of use. If there is no majority of controllers, peers that have ended stay
        # in the set. Changed in place, because other objects refer to it.
        self.lost: set[int] = set()
        self._dead_ms: dict[int, int] = {}  # when each peer was found to have ended; no message since
        # Since when the other controllers are known to be no majority without this node; None: they may be.
        # It is counted before it is used: a node that is the only controller was so from its start.
        self._undecided_since_ms: int | None = services.uptime_ms()

    def heard(self, peer: int) -> None:
        self._heard_ms[peer] = self._services.uptime_ms()
        if peer in self._silent_since_ms:
            del self._silent_since_ms[peer], self._closed_ms[peer]
            self.lost.discard(peer)
            if self._dead_ms.pop(peer, None) is not None:
                self._count_deciders()

    def went_silent(self, peer: int) -> None:
        self._closed_ms[peer] = self._services.uptime_ms()
        if peer not in self._silent_since_ms:
            self._silent_since_ms[peer] = self._services.uptime_ms()
            self.lost.add(peer)

    def lost_since_ms(self, peer: int) -> int | None:
        """When a silent peer's connections closed; None: it is not silent."""
        return self._silent_since_ms.get(peer)

    def last_heard_ms(self, peer: int) -> int | None:
        return self._heard_ms.get(peer)

    def forget(self, peer: int) -> None:
        """Its connections closed, and it is no node of this cluster."""
        self._heard_ms.pop(peer, None)
        self._silent_since_ms.pop(peer, None)
        self._closed_ms.pop(peer, None)
        self._dead_ms.pop(peer, None)
        self.lost.discard(peer)

    def ended(self, peer: int) -> bool:
        """The process of a peer has ended. Returns False if a message has arrived since its connection
        closed.
        """
        if peer not in self._silent_since_ms:
            return False
        self._count_deciders()  # What was seen earlier may be too old by now.
        self._dead_ms[peer] = self._services.uptime_ms()
        self._count_deciders()
        return True

    def registered(self, peer: int) -> None:
        """A new process of a peer has registered. That an earlier one had ended says nothing about it:
        another controller may have given it a session, though it cannot be reached from here.
        """
        if self._dead_ms.pop(peer, None) is not None:
            self._count_deciders()

    def look(self, now_ms: int, orphaning: AbstractSet[int]) -> None:
        self._count_deciders()
        self.lost.update(orphaning)
        for peer in self.lost - orphaning:
            if now_ms - self._silent_since_ms[peer] >= self._lost_for_ms:
                self.lost.discard(peer)

    def silent(self) -> list[tuple[int, bool]]:
        """Peers that have ended, or whose connections closed a moment ago; each with whether it has ended.
        Those that have been silent for longer had time to be heard by an earlier controller.
        """
        return [(peer, peer in self._dead_ms) for peer in sorted(self.lost | self._dead_ms.keys())]

    # --- the controllers ------------------------------------------------------------------------------------

    @property
    def has_deciders(self) -> bool:
        """Whether a majority of the controllers is reachable, judging by closed connections."""
        controllers = self._controllers()
        return len(controllers.ids - self._silent_since_ms.keys()) >= controllers.majority

    @property
    def may_be_fenced_early(self) -> bool:
        """Whether a controller may fence this broker before its session is over, if it becomes the active
        one: its connections closed, and it was neither heard since nor seen to end. That the present
        controller answers shows nothing about that.
        """
        oldest_ms = self._services.uptime_ms() - self._closed_for_ms
        return bool(self._closed_ms) and any(
            self._closed_ms.get(controller, oldest_ms) > oldest_ms
            for controller in self._not_ended(self._controllers())
        )

    def may_have_been_decided(self, since_ms: int) -> bool:
        """Whether the other controllers may have been a majority without this node at any time since
        ``since_ms``: not if too many of them had ended by then, and none has been heard again. That they have
        ended now is not enough: they may have decided before. When a controller has started since, this
        broker gets a whole session before that ends (:meth:`.Controller.tick`), so an observation is valid
        for that long.
        """
        self._count_deciders()
        undecided_ms = self._undecided_since_ms
        return undecided_ms is None or undecided_ms > since_ms

    def _count_deciders(self) -> None:
        controllers = self._controllers()
        # They may have added or removed one controller without this node. Then half of an even number are a
        # majority; with an odd number that makes no difference.
        enough = (len(controllers) + 1) // 2
        if len(self._not_ended(controllers) - {self._me}) >= enough:
            self._undecided_since_ms = None
        elif self._undecided_since_ms is None:
            self._undecided_since_ms = self._services.uptime_ms()

    def orphaning(self) -> AbstractSet[int]:
        """Brokers that have ended while a majority of the controllers has ended as well, so they cannot be
        fenced. They lead nothing now, and will not before a controller has registered them again.
        """
        controllers = self._controllers() if self._dead_ms else None
        if controllers is None or len(self._not_ended(controllers)) >= controllers.majority:
            return frozenset()
        return self._dead_ms.keys()

    def _not_ended(self, controllers: VoterSet) -> AbstractSet[int]:
        """The controllers without those that have ended within the last session timeout."""
        seen_ms = self._services.uptime_ms() - relied_on_ms(self._session_ms)
        dead = {peer for peer, dead_ms in self._dead_ms.items() if dead_ms > seen_ms}
        return controllers.ids - dead
