"""Periodic tasks of a broker: retention, flushes, checkpoints, compaction and scrubbing."""
