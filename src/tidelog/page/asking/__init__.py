"""What the page asks brokers: blocking questions over the Kafka protocol and HTTP."""
