"""A small blocking Kafka client for Spark's Python workers.

Light on purpose: a worker process starts for every query and imports this, so it knows nothing of kio or
librdkafka. Record batches go in and out as bytes; nothing here looks at a record.
"""
