"""Values of the settings for access rules. What they mean is known by :mod:`tidelog.security`."""

from __future__ import annotations

from tidelog.config.kinds import ConfigType, ExplainedError, Kind, Raw

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Principals(Kind[tuple[str, ...]]):
    """Separated by semicolons, because the names of certificates have commas."""

    type = ConfigType.STRING
    allowed = "principals such as User:admin, separated by semicolons"

    def parse(self, raw: Raw) -> tuple[str, ...]:
        words = raw.split(";") if isinstance(raw, str) else raw
        if not isinstance(words, list | tuple):
            raise ValueError(raw)
        names = tuple(name for name in (str(word).strip() for word in words) if name)
        for name in names:
            kind, colon, rest = name.partition(":")
            if not (kind and colon and rest):
                raise ExplainedError(f"{name!r} is not a principal, such as User:admin")
        return names

    def format(self, value: tuple[str, ...]) -> str:
        return ";".join(value)
