"""Simulated clients: producers, readers and administrators, which know the cluster only by asking it."""
