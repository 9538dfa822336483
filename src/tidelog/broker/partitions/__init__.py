"""The partitions of this broker: what clients may append to them, and the table that follows the metadata."""
