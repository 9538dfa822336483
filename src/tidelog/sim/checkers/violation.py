"""What the whole simulator is looking for."""


class Violation(AssertionError):
    """A promise was broken."""
