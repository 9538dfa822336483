"""Admission of transactional batches: only those whose transaction is known to its coordinator."""
