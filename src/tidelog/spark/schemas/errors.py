"""Why schemas cannot be used: a registry that fails, and values that do not match."""

from tidelog.spark.options import OptionError


class RegistryUnavailable(OptionError):
    """The registry does not answer, or refuses us. Never a reason to call a record undecodable."""


class Undecodable(Exception):
    """A value that does not match its schema, or whose schema cannot be used. The text says why."""


class UnreadableValue(OptionError):
    """A value is undecodable, and the caller asked to fail in this case."""
