"""``tidelog lab``: experiments with real brokers and real faults."""
