"""A small blocking Kafka client for the command line, the lab and Spark's Python workers.

Light on purpose: a Spark worker starts for every query and imports this, so it knows nothing of kio or
librdkafka. Record batches go in and out as bytes; nothing here looks at a record.
"""
