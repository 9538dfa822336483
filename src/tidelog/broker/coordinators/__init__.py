"""State that lives in an internal topic: loaded by the leader of a partition, changed only by what is
committed.

A **coordinator** (:mod:`~tidelog.broker.coordinators.coordinator`) belongs to one internal topic. For each
partition this broker leads it has a **shard** (:mod:`~tidelog.broker.coordinators.shard`), and in each shard
a **machine** of the topic's kind: consumer groups or transactions. A key (group id, transactional id) belongs
to partition ``abs(java hash) % partitions``, so every broker finds the same coordinator.

How to build one::

    class MyMachine:                                # see shard.Machine
        def __init__(self, shard: Shard): ...       # empty; keep the shard to append to
        def replay(self, record, batch): ...        # a record of the log, in order, while loading
        def marker(self, producer_id, epoch, committed): ...    # the end of a transaction in this partition
        def start(self): ...                        # everything is replayed; requests come from now on
        def stop(self): ...                         # unloaded: answer who waits (NOT_COORDINATOR), end timers

    mine = Coordinator(broker, "__my_topic", MyMachine)
    machine = mine.machine_of(key)                  # raises NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS
    shard.append([(key, value), ...], done)         # done(ErrorCode.NONE) when committed

``append`` writes nothing at once: what is appended in one turn of the event loop becomes one batch (a
transactional one is written at once, alone). ``done`` is called exactly once, in the order of the appends,
with NONE when the records are committed (acks=all) or with an error in a coordinator's words
(:func:`~tidelog.broker.coordinators.failures.coordinator_error`). A machine changes its state in ``done``,
so it is never ahead of its log. A machine that must decide on top of undecided changes calls
``shard.throw_away()`` when one of them fails.

After a failure that leaves open whether the records are in the log, the shard throws itself away and is
loaded again; when leadership is lost, too, it goes: ``stop`` is called, then every open ``done`` gets
NOT_COORDINATOR, then nothing more comes.
"""

from tidelog.broker.coordinators.alarm import Alarm
from tidelog.broker.coordinators.coordinator import Coordinator
from tidelog.broker.coordinators.shard import Shard, ShardMachine

__all__ = ["Alarm", "Coordinator", "Shard", "ShardMachine"]
