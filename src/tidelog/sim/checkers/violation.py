"""The result that the simulator looks for."""


class Violation(AssertionError):
    """A promise was broken."""
