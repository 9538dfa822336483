"""A broker: one handler per Kafka API, and the partitions that the handlers work on.

This package uses no sockets, threads or clocks directly. They are passed in as
:class:`~tidelog.services.Services`, so the same handlers run in a real process and in the simulator.
"""
