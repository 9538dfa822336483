"""The settings a coordinator reads, under Kafka's names. ``tidelog.config.BrokerConfig`` fits by shape."""

from typing import Protocol


class Settings(Protocol):
    """What a shard needs of the broker's configuration."""

    @property
    def transaction_max_timeout_ms(self) -> int: ...
    @property
    def transactional_id_expiration_ms(self) -> int: ...
    @property
    def transaction_remove_expired_transaction_cleanup_interval_ms(self) -> int: ...
