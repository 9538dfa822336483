"""``tidelog page``."""
