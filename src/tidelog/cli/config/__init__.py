"""``tidelog config``: settings of topics and brokers."""
