"""``tidelog up`` and ``tidelog broker``: processes on this machine."""
