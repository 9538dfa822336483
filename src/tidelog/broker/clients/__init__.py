"""What a broker tells clients about brokers and leaders, and what it remembers about a client."""
