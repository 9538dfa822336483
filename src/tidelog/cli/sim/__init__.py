"""``tidelog sim``: simulated clusters, hunts and reports."""
