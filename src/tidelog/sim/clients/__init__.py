"""Simulated clients: producers, readers and administrators, which know the cluster only through requests."""
