"""Coordinators: state that is stored in an internal topic. The leader of a partition loads it, and only
committed records change it.

A **coordinator** (:mod:`~tidelog.broker.coordinators.coordinator`) belongs to one internal topic. For each
partition this broker leads it has a **shard** (:mod:`~tidelog.broker.coordinators.shard`), and in each shard
a **machine** of the topic's kind: consumer groups or transactions. A key (group id, transactional id) belongs
to partition ``abs(java hash) % partitions``, so every broker finds the same coordinator.

How to build one::

    class MyMachine:                                # see shard.Machine
        def __init__(self, shard: Shard): ...       # empty; keep the shard to append to
        def replay(self, record, batch): ...        # a record of the log, in order, while loading
        def marker(self, producer_id, epoch, committed): ...    # the end of a transaction in this partition
        def start(self): ...                        # the replay is complete; requests follow
        def stop(self): ...                         # unloaded: refuse pending requests, cancel timers

    mine = Coordinator(broker, "__my_topic", MyMachine)
    machine = mine.machine_of(key)                  # raises NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS
    shard.append([(key, value), ...], done)         # done(ErrorCode.NONE) when committed

``append`` does not write immediately: all records that are appended in one turn of the event loop become one
batch. Transactional records are written immediately, in their own batch. ``done`` is called exactly once, in
the order of the appends: with NONE when the records are committed (acks=all), or with a coordinator's error
code (:func:`~tidelog.broker.coordinators.failures.coordinator_error`). A machine changes its state in
``done``, so it is never ahead of its log. A machine whose decisions depend on pending changes calls
``shard.throw_away()`` when one of those fails.

After a failure that leaves it unknown whether the records are in the log, the shard is discarded and a new
one is loaded. It is discarded as well when leadership is lost: ``stop`` is called, then every pending
``done`` gets NOT_COORDINATOR, and the machine is not called again.
"""

from tidelog.broker.coordinators.alarm import Alarm
from tidelog.broker.coordinators.coordinator import Coordinator
from tidelog.broker.coordinators.shard import Shard, ShardMachine

__all__ = ["Alarm", "Coordinator", "Shard", "ShardMachine"]
