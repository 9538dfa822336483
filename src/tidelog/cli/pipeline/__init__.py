"""``tidelog pipeline``: jobs on Spark."""
