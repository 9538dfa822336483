"""Real broker processes, looked at and treated from outside: what the command line, the pytest fixtures and
experiments under real faults have in common.

Knows brokers by their public protocol, their files and their processes only.
"""
