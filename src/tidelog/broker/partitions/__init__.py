"""The partitions of this broker: the checks of appended batches, and the table that follows the metadata."""
