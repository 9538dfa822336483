"""A fault that is there now."""

from collections.abc import Callable


class Injected:
    """``name`` says what was done: ``kill -9 of broker 2``. Healing twice is the same as once."""

    def __init__(self, name: str, heal: Callable[[], None] | None = None) -> None:
        self.name = name
        self._heal = heal

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}>"

    @property
    def is_momentary(self) -> bool:
        """Nothing (more) is to be healed."""
        return self._heal is None

    def heal(self) -> None:
        heal, self._heal = self._heal, None
        if heal is not None:
            heal()
