"""Which batches may be appended inside a transaction: those that its coordinator knows of."""
