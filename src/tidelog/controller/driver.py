"""Carries out the controller's effects on the metadata store, and keeps the callbacks of pending requests."""

from collections.abc import Callable, Sequence

from tidelog.config import BrokerConfig
from tidelog.controller.controller import Controller, SessionTiming
from tidelog.controller.effects import Effects, Reply, Submit
from tidelog.controller.image import ClusterImage
from tidelog.controller.messages import ControllerAsk, ControllerGot
from tidelog.controller.records import MetadataRecord
from tidelog.controller.store import MetadataStore
from tidelog.errors import ErrorCode, TidelogError

OnReply = Callable[[ControllerGot], None]
Soon = Callable[[Callable[[], None]], None]


def at_once(callback: Callable[[], None]) -> None:
    callback()


class ControllerDriver:
    def __init__(self, controller: Controller, store: MetadataStore, soon: Soon = at_once) -> None:
        """``soon``: calls back when other work of the cluster has had its turn."""
        self._controller = controller
        self._store = store
        self._soon = soon
        self._is_scheduled = False  # More partitions are looked at in a moment.
        self._pending: dict[int, OnReply] = {}
        self._last_token = 0

    @classmethod
    def of(
        cls, store: MetadataStore, config: BrokerConfig, timing: SessionTiming, soon: Soon = at_once
    ) -> "ControllerDriver":
        return cls(Controller(store, config, timing), store, soon)

    @property
    def active(self) -> bool:
        return self._controller.active

    def configure(self, config: BrokerConfig) -> None:
        self._controller.configure(config)

    def activate(self, now_ms: int) -> None:
        self._controller.activate(now_ms)

    def deactivate(self) -> None:
        self._controller.deactivate()

    def tick(self, now_ms: int, followed_ms: int) -> None:
        self.run(self._controller.tick(now_ms, followed_ms))

    def broker_lost(self, broker_id: int, now_ms: int, *, dead: bool = False) -> None:
        self.run(self._controller.broker_lost(broker_id, now_ms, dead=dead))

    def keep_in_order(self, now_ms: int) -> None:
        self.run(self._controller.keep_in_order(now_ms))

    def handle(self, ask: ControllerAsk, now_ms: int, on_reply: OnReply) -> None:
        token = self._last_token = self._last_token + 1
        self._pending[token] = on_reply
        self.run(self._controller.handle(ask, now_ms, token))

    def run(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Reply):
                self._pending.pop(effect.token)(effect.got)
            else:
                self._submit(effect)

    def _submit(self, effect: Submit) -> None:
        verdict: ErrorCode | bool | None = None

        def decide(image: ClusterImage) -> Sequence[MetadataRecord]:
            nonlocal verdict
            records, verdict = self._controller.decide(effect.decision, image)
            return records

        def done(error: TidelogError | None) -> None:
            code = error.code if error else ErrorCode.NONE
            self.run(self._controller.committed(effect, verdict, code))

        self._store.submit(decide, done)
        if self._controller.has_more_to_review and not self._is_scheduled:
            self._is_scheduled = True
            self._soon(self._resume)

    def _resume(self) -> None:
        self._is_scheduled = False
        self.run(self._controller.review())
