"""A cluster whose brokers run on hosts of their own, and whose lines have faults by the kernel. Needs root.

A cut sends packets to an address without a cable. For other faults every host has a queue for each other
party, which netem delays, thins out or slows down; a kernel without netem can still cut. Clients are outside
of all hosts, on the bridge between them.
"""

import subprocess
from collections.abc import Sequence

from tidelog.lab.local.cluster import Cluster
from tidelog.lab.local.network import Network, NetworkUnavailable
from tidelog.lab.network.shape import Shape
from tidelog.lab.network.wiring import Direction, Party, Wiring

BANDS_MAX = 16  # of the queue that sorts packets by their target
CLIENTS = "clients"


class NamespaceWiring(Wiring):
    kind = "namespaces"

    def __init__(self, cluster: Cluster, *, shaped: bool = True) -> None:
        """``shaped``: with the queues for lines that are slow or lossy; NetworkUnavailable without netem."""
        super().__init__()
        if cluster.network is None:
            raise ValueError("the cluster has no network")
        self._network: Network = cluster.network
        self.bootstrap = cluster.bootstrap
        self._bands: dict[Direction, int] = {}  # empty: no queues
        self._cut: set[Direction] = set()
        self._shapes: dict[Direction, Shape] = {}
        if shaped:
            self._prepare()

    def _prepare(self) -> None:
        try:
            for number in self._network.hosts:
                self._sort(number)
            for direction in self._bands:  # a kernel may have queues, but no netem
                self._shape(direction, Shape(delay_ms=1))
                self._shape(direction, Shape())
        except subprocess.CalledProcessError as error:
            words = " ".join(error.stderr.split()).rstrip(".")
            raise NetworkUnavailable(f"this kernel cannot shape packets (tc: {words})") from None
        except FileNotFoundError:
            raise NetworkUnavailable("the program tc is not installed") from None

    def close(self) -> None:
        self._network.close()

    def _sort(self, number: int) -> None:
        """Packets of this host by their target, and of clients to this host."""
        hosts = self._network.hosts
        others: dict[Party, str] = {n: host.address for n, host in hosts.items() if n != number}
        others[CLIENTS] = self._network.outside
        if len(others) >= BANDS_MAX:
            raise NetworkUnavailable(f"at most {BANDS_MAX - 1} brokers can have network faults by netem")
        self._root(self._device(number))
        for band, (party, address) in enumerate(others.items(), 2):
            self._filter(self._device(number), "dst", address, band)
            self._bands[Direction(number, party)] = band
        self._root(self._device(CLIENTS, number))
        self._filter(self._device(CLIENTS, number), "src", self._network.outside, 2)
        self._bands[Direction(CLIENTS, number)] = 2

    def _device(self, source: Party, target: Party = 0) -> list[str]:
        """Where packets leave: ``tc`` with the namespace, and its device."""
        if isinstance(source, int):
            return ["tc", "-n", self._network.hosts[source].name, "eth0"]
        return ["tc", self._network.hosts[int(target)].cable]

    def _root(self, device: Sequence[str]) -> None:
        bands = ["bands", str(BANDS_MAX), "priomap", *["0"] * 16]
        _tc(device, "qdisc", "replace", "root", "handle", "1:", "prio", *bands)

    def _filter(self, device: Sequence[str], side: str, address: str, band: int) -> None:
        match = ["u32", "match", "ip", side, f"{address}/32", "flowid", f"1:{band:x}"]
        _tc(device, "filter", "add", "parent", "1:", "protocol", "ip", "prio", "1", *match)

    def _apply(self, direction: Direction, shape: Shape) -> None:
        if shape.cut != (direction in self._cut):
            self._network.lose(*_ends(direction), lost=shape.cut)
            self._cut ^= {direction}
        rest = shape._replace(cut=False)
        if self._bands:
            self._shape(direction, rest)
        elif not rest.is_clear:
            raise NetworkUnavailable("this cluster was made for cuts only")

    def _shape(self, direction: Direction, shape: Shape) -> None:
        if shape == self._shapes.get(direction, Shape()):
            return
        self._shapes[direction] = shape
        device = self._device(direction.source, direction.target)
        parent = ["parent", f"1:{self._bands[direction]:x}"]
        if shape.is_clear:
            _tc(device, "qdisc", "del", *parent)
        else:
            _tc(device, "qdisc", "replace", *parent, "netem", *netem_words(shape))


def _ends(direction: Direction) -> tuple[int | None, int | None]:
    """None for the clients."""
    source, target = direction
    return (source if isinstance(source, int) else None, target if isinstance(target, int) else None)


def netem_words(shape: Shape) -> list[str]:
    """The shape as ``tc … netem`` is told it."""
    words = ["limit", "100000"]
    if shape.delay_ms or shape.jitter_ms:
        words += ["delay", f"{shape.delay_ms:g}ms"]
        words += [f"{shape.jitter_ms:g}ms"] if shape.jitter_ms else []
    if shape.loss_percent:
        words += ["loss", f"{shape.loss_percent:g}%"]
    if shape.kbytes_per_s:
        words += ["rate", f"{8 * shape.kbytes_per_s:g}kbit"]
    return words


def _tc(device: Sequence[str], what: str, how: str, *words: str) -> None:
    *command, name = device
    subprocess.run([*command, what, how, "dev", name, *words], check=True, capture_output=True, text=True)
