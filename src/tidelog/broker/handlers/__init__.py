"""One file per Kafka API. Each begins with the versions it serves and what it ignores.

A handler reads a decoded request and returns the answer's fields, or a promise of them. Produce and Fetch,
the hot ones, read and write their frames themselves.
"""
