"""Runs experiments: targets, rounds, faults on time, results."""
