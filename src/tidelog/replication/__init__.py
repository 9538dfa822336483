"""How many copies make a record committed, and when a producer hears of it.

Pure: no clock, file, socket or chance. A policy answers questions about a view of one partition; the broker
asks.
"""
