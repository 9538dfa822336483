"""The ways from this broker to other brokers and to the active controller, and the broker as its own parts
see it.
"""
