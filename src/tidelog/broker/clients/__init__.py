"""What a broker reports to clients about brokers and leaders, and what it remembers about each client."""
