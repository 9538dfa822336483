"""The broker: the state that all handlers share."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol, TypeVar

from tidelog.broker.clients.fetch_sessions import FetchSessions, unguessable_ids
from tidelog.broker.clients.reachable import Reachable
from tidelog.broker.clients.woken_fetches import WokenFetches
from tidelog.broker.coordinators.coordinators import Coordinators
from tidelog.broker.coordinators.producer_ids import ProducerIds
from tidelog.broker.links.links import Links
from tidelog.broker.partitions.table import PartitionTable
from tidelog.broker.transactions.admission import Admission
from tidelog.config import BrokerConfig
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.store import MetadataStore
from tidelog.security.access import AccessTable
from tidelog.security.audit import Audit, Line
from tidelog.security.quotas import Quotas
from tidelog.services import Services, ignore

T = TypeVar("T")


class Compute(Protocol):
    def __call__(self, work: Callable[[], T], done: Callable[[T | BaseException], None], /) -> None:
        """Run ``work`` in a thread. ``done`` gets its result or exception on the event loop."""


class Broker:
    def __init__(
        self,
        config: BrokerConfig,
        store: MetadataStore,
        partitions: PartitionTable,
        services: Services,
        links: "Callable[[Broker], Links]",
        compute: Compute | None = None,
        lost_brokers: AbstractSet[int] = frozenset(),
        on_config: Callable[[BrokerConfig], None] = ignore,
        on_quotas: Callable[[], None] = ignore,
        audit: Callable[[Line], None] | None = None,
    ) -> None:
        """``links`` makes the links to other brokers and to this broker's own handlers. ``compute`` runs
        CPU-bound work; by default ``services.offload``. ``lost_brokers`` are the brokers whose connections
        have just closed, although the metadata may still list them as leaders. ``audit`` writes a line of the
        audit log; by default there is none.
        """
        self.broker_id = config.node_id
        self.config = config  # replaced when a dynamic setting changes
        # As the client wrote them. The values in ``config`` are normalized, so comparing with those would
        # find a difference after every change.
        self._dynamic: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
        self.store = store
        self.partitions = partitions
        self.services = services
        self.compute: Compute = services.offload if compute is None else compute
        self.links = links(self)
        self.producer_ids = ProducerIds(self)
        self.lost_brokers = lost_brokers
        self.reachable = Reachable(services)
        self.access = _access_table(config)
        self.audit = None if audit is None else Audit(audit, services.now_ms)
        self._on_config = on_config
        self._on_quotas = on_quotas
        self.fetch_sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots, unguessable_ids(services.new_uuid().bytes)
        )
        self.woken_fetches = WokenFetches(services)
        self.quotas = Quotas()
        self.coordinators = Coordinators(self, self.producer_ids)
        self.admission = Admission(self, self.coordinators.transactions, self.coordinators.of)

    def newest(self, topic: TopicImage) -> TopicImage:
        """The topic with the newest leaders known to this broker. In quorum topics the replicas elect their
        leader, and it is added to the metadata log only afterwards.
        """
        return self.partitions.newest(topic)

    def newest_partition(self, topic: TopicImage, index: int) -> PartitionImage:
        """The same for one partition. A topic may have thousands of others."""
        return self.partitions.newest_partition(topic, index)

    @property
    def image(self) -> ClusterImage:
        return self.store.image

    def metadata_changed(self, image: ClusterImage) -> None:
        """Apply a new metadata image: first the settings, because partitions are opened with them."""
        self.reachable.follow(image)
        if self.access is not None:
            self.access.follow(image.security.acls)
        dynamic = image.broker_configs.get(str(self.broker_id), {}), image.broker_configs.get("", {})
        if dynamic != self._dynamic:
            self._dynamic = dynamic
            self.config = self.config.with_dynamic(*dynamic)
            self._on_config(self.config)
        if self.quotas.follow(image.security.quotas):
            self._on_quotas()
        self.partitions.follow(image, self.config)
        self.partitions.when_open(self.coordinators.follow)


def _access_table(config: BrokerConfig) -> AccessTable | None:
    if not config.authorizer_class_name:
        return None
    return AccessTable(config.super_users, open_without_rules=config.allow_everyone_if_no_acl_found)
