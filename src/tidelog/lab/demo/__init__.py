"""``tidelog demo``: four topics of different modes under load, and faults at the press of a key."""
