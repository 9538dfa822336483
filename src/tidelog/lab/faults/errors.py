"""What goes wrong when a fault is injected, in a sentence."""


class FaultError(Exception):
    """The fault could not be made, or not be healed; the message says why."""
