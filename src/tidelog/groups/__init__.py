"""Consumer groups and committed offsets, as pure state machines.

:class:`~tidelog.groups.shard.GroupShard` is one partition of ``__consumer_offsets``: all its groups and
offsets. A request goes in with the current time and a token for its pending response;
:mod:`~tidelog.groups.effects` come out: responses, and records to write with what follows once they are
committed. Nothing in here knows a clock, a log or a socket.

==============================  ====================================================================
:mod:`~tidelog.groups.group`    what the two kinds of groups have in common
:mod:`~tidelog.groups.classic`  groups whose leading member assigns the partitions
:mod:`~tidelog.groups.consumer` groups whose partitions the broker assigns (KIP-848)
:mod:`~tidelog.groups.offsets`  committed offsets, and those of open transactions
:mod:`~tidelog.groups.records`  the bytes in ``__consumer_offsets``: Kafka's own format
==============================  ====================================================================
"""
