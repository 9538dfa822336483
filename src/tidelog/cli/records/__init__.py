"""``tidelog produce`` and ``tidelog consume``."""
