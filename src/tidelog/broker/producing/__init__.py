"""What Produce needs besides its usual path: batches that must be opened first, those of transactions, and
answers.
"""
