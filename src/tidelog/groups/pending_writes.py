"""What follows each write of a shard of groups, by the token of its effect.

A token is taken when its write is committed or refused. If the shard is unloaded, all its writes are refused,
and the table is gone with the shard.
"""

from typing import Any

from tidelog.shard_effects import Token

NOTHING_FOLLOWS = 0
"""The token of a write whose outcome changes nothing."""


class PendingWrites:
    __slots__ = ("_by_token", "_last_token")

    def __init__(self) -> None:
        self._by_token: dict[Token, Any] = {}
        self._last_token = NOTHING_FOLLOWS

    def add(self, pending: Any) -> int:
        """The token under which this waits."""
        token = self._last_token = self._last_token + 1
        self._by_token[token] = pending
        return token

    def take(self, token: Token) -> Any:
        """What follows the write; the token is not valid any more."""
        return self._by_token.pop(token)

    def __len__(self) -> int:
        return len(self._by_token)
