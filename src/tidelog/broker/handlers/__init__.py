"""One module per Kafka API. Its docstring lists the versions served and the fields ignored.

A handler gets a decoded request and returns the fields of the response, or a future of them. For speed,
Produce and Fetch decode and encode their frames themselves.
"""
