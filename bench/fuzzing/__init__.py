"""Frames that a stranger might send before it has authenticated, and the parsers that see them."""
