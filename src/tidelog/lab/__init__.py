"""Real broker processes, observed and controlled from outside: shared by the command line, the pytest
fixtures and experiments with real faults.

Knows brokers by their public protocol, their files and their processes only.
"""
