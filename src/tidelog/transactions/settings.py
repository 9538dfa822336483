"""The settings of a transaction coordinator, named as in Kafka. ``tidelog.config.BrokerConfig`` has them."""

from typing import Protocol


class Settings(Protocol):
    @property
    def transaction_max_timeout_ms(self) -> int: ...
    @property
    def transactional_id_expiration_ms(self) -> int: ...
    @property
    def transaction_remove_expired_transaction_cleanup_interval_ms(self) -> int: ...
