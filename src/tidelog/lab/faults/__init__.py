"""Faults on real processes, files and connections."""
