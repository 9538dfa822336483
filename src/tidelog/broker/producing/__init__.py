"""Parts of Produce besides its hot path: batches that must be decoded first, transactional batches, and
responses.
"""
