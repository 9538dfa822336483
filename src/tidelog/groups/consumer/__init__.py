"""Consumer groups whose partitions the broker assigns (KIP-848).

A group is the sum of its records: :class:`~tidelog.groups.consumer.group.ConsumerGroup` keeps the newest
record under each key, and the deciding modules (``heartbeats``, ``classic_members``, ``migration``) check
first, then put records. So a replay of the log gives the same group, by construction. Nothing in here knows a
clock, a log or a socket: the time, the topics and the settings come in with every event
(:class:`~tidelog.groups.consumer.view.GroupContext`), records and a response go out.
"""
