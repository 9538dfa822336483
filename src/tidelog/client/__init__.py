"""A small blocking Kafka client for the command line, the lab and Spark's Python workers.

Light on purpose: a Spark worker starts for every query and imports this, so it does not depend on kio or
librdkafka. Record batches are bytes; records are never decoded here.
"""
