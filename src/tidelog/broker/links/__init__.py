"""Requests from this broker to other brokers and to the active controller, and the interface of the broker
for its own parts.
"""
