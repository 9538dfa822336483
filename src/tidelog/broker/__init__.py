"""One broker's answers to Kafka requests: a handler per API, and the partitions they work on.

Nothing here knows sockets, threads or clocks; they come in as :class:`~tidelog.services.Services`. So
the same handlers serve a real process and a simulated one.
"""
