"""``tidelog demo``."""
