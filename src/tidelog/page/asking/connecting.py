"""How this process connects to brokers: a page is about one cluster, so it is decided once, at the start."""

from tidelog.client.settings import OPEN, Security

_security = OPEN


def use(security: Security) -> None:
    global _security
    _security = security


def security() -> Security:
    return _security
