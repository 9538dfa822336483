"""What a broker does by the clock: retention, flushes, checkpoints, compaction and scrubbing."""
