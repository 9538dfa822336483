"""Transactions on the broker's side: admission of batches, markers, producer ids."""
