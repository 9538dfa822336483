"""How many connections there may be, in all and from one address.

Owns the counts; knows no sockets. A connection gets a :class:`ConnectionPlace` before anything else is made
for it, and the place is given back when it has ended.

Clients must not lock out the other nodes of the cluster: a broker that cannot be reached by its followers and
controllers is fenced. So some connections are accepted beyond the limits, and each of these must be a node's:
its first request shows it, and until then its time is short. Connections of nodes do not count as clients'.
"""

from collections import Counter

from tidelog.config import BrokerConfig

RESERVED = 64  # connections beyond the limits that have not shown yet that they are a node's
RESERVED_S = 5.0  # how long they may take
NODES_MAX = 4096  # Other nodes have four connections each.
NODES_USUAL = 256  # The descriptors for so many are not among those for clients.
STRANGERS_MAX = 1024  # connections at listeners for nodes that have not shown yet that they are a node's
STRANGERS_LEAST = 16  # also if there are no descriptors left


class ConnectionPlace:
    """One connection's share of the limits."""

    __slots__ = ("ip", "node", "refusal", "since_s", "taken")

    def __init__(self, ip: str, since_s: float, refusal: str = "") -> None:
        self.ip = ip
        self.since_s = since_s
        self.refusal = refusal  # why it is refused unless it is a node's; "": it may be a client's
        self.node = False
        self.taken = True


class ConnectionLimits:
    def __init__(self, config: BrokerConfig, room: int) -> None:
        """``room``: for how many connections the process has descriptors."""
        self.config = config  # replaced when a setting changes
        self._room = room
        self._usual_nodes = min(NODES_USUAL, room // 2)
        self._clients = 0
        self._nodes = 0
        self._per_ip: Counter[str] = Counter()  # of clients
        self._reserved: dict[ConnectionPlace, None] = {}

    def has_room(self, ip: str) -> bool:
        """Whether a client at this address may have one more connection."""
        return not self._refusal(ip)

    def admit(self, ip: str, now_s: float, *, for_nodes: bool = False) -> ConnectionPlace | str:
        """The place of a new connection, or why there is none. ``for_nodes``: it came in by a listener that
        only nodes use.
        """
        if for_nodes:
            place = ConnectionPlace(ip, now_s)
            return self._admit_node(place) or place
        refusal = self._refusal(ip)
        if not refusal:
            self._clients += 1
            self._per_ip[ip] += 1
            return ConnectionPlace(ip, now_s)
        if len(self._reserved) >= RESERVED:
            return refusal
        place = ConnectionPlace(ip, now_s, refusal)
        self._reserved[place] = None
        return place

    def _refusal(self, ip: str) -> str:
        config = self.config
        if self._clients >= config.max_connections:
            return f"max.connections ({config.max_connections}) is reached"
        if self._clients + self._unusual_nodes >= self._room:
            return f"the limit of open files leaves room for {self._room} connections, which are in use"
        if self._per_ip[ip] >= config.max_connections_per_ip:
            return f"max.connections.per.ip ({config.max_connections_per_ip}) is reached for {ip}"
        return ""

    @property
    def _unusual_nodes(self) -> int:
        """Connections of nodes that use descriptors of clients."""
        return max(self._nodes - self._usual_nodes, 0)

    @property
    def strangers_max(self) -> int:
        """How many connections at listeners for nodes may not have shown yet that they are a node's."""
        left = self._room - self._clients - self._unusual_nodes
        return max(min(STRANGERS_MAX, self._usual_nodes + left), STRANGERS_LEAST)

    def becomes_node(self, place: ConnectionPlace) -> str:
        """The connection is another node's. Returns a reason if there are too many of those."""
        if place.node or not place.taken:
            return ""
        refusal = self._admit_node(place)
        if not refusal:
            self._give_back(place)
            place.refusal = ""
        return refusal

    def _admit_node(self, place: ConnectionPlace) -> str:
        if self._nodes >= NODES_MAX:
            return f"there are {self._nodes} connections of nodes already"
        self._nodes += 1
        place.node = True
        return ""

    def release(self, place: ConnectionPlace) -> None:
        """The connection has ended. May be called twice."""
        if not place.taken:
            return
        place.taken = False
        if place.node:
            self._nodes -= 1
        else:
            self._give_back(place)

    def _give_back(self, place: ConnectionPlace) -> None:
        if place.refusal:
            del self._reserved[place]
            return
        self._clients -= 1
        self._per_ip[place.ip] -= 1
        if not self._per_ip[place.ip]:
            del self._per_ip[place.ip]
