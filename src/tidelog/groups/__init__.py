"""Consumer groups and committed offsets, as pure state machines.

:class:`~tidelog.groups.shard.GroupShard` is one partition of ``__consumer_offsets``: all its groups and
offsets. The input is a request with the current time and a token for its pending response. The output is
:mod:`~tidelog.groups.effects`: responses, and records to write with a callback for when they are committed.
This package uses no clock, log or socket.

==============================  ====================================================================
:mod:`~tidelog.groups.group`    what the two kinds of groups have in common
:mod:`~tidelog.groups.classic`  groups whose leading member assigns the partitions
:mod:`~tidelog.groups.consumer` groups whose partitions the broker assigns (KIP-848)
:mod:`~tidelog.groups.offsets`  committed offsets, and those of open transactions
:mod:`~tidelog.groups.records`  the bytes in ``__consumer_offsets``: Kafka's own format
==============================  ====================================================================
"""
