"""The partition state machine: how a replica leads, follows and decides that a record is committed.

Pure: no clock, file, socket or randomness. Events come in as method calls that carry the time. Effects go out
as values, and the driver of the replica carries them out in order. The replication modes differ only in their
policy.
"""
