"""The partition state machine: how a replica leads, follows and decides that a record is committed.

Pure: no clock, file, socket or chance. Events come in as method calls with the time in them, effects go out
as values; whoever drives a replica carries them out, in order. The replication modes differ only in their
policy.
"""
