"""The broker: what all handlers share."""

from collections.abc import Callable

from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.partitions import PartitionTable
from tidelog.config import BrokerConfig
from tidelog.controller.image import ClusterImage
from tidelog.controller.store import MetadataStore
from tidelog.services import Services


class Broker:
    def __init__(
        self,
        config: BrokerConfig,
        store: MetadataStore,
        partitions: PartitionTable,
        services: Services,
    ) -> None:
        self.broker_id = config.node_id
        self.config = config  # replaced when a dynamic setting changes
        self.store = store
        self.partitions = partitions
        self.services = services
        self.on_config: Callable[[BrokerConfig], None] = lambda config: None
        self.fetch_sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots, services.new_uuid().int & 0x7FFFFFFF
        )

    @property
    def image(self) -> ClusterImage:
        return self.store.image

    def metadata_changed(self, image: ClusterImage) -> None:
        """Follow the metadata log: settings first, as the partitions are opened with them."""
        own, everyone = image.broker_configs.get(str(self.broker_id), {}), image.broker_configs.get("", {})
        if own != self.config.dynamic_values or everyone != self.config.dynamic_defaults:
            self.config = self.config.with_dynamic(own, everyone)
            self.on_config(self.config)
        self.partitions.follow(image, self.config)
