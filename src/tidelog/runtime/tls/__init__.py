"""TLS of connections: certificates, handshakes in a thread, and the layer between socket and protocol."""
