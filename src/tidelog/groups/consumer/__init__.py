"""Consumer groups whose partitions the broker assigns (KIP-848).

A group is what its records say: :class:`~tidelog.groups.consumer.group.ConsumerGroup` keeps the newest record
under each key, and whatever decides (``heartbeats``, ``classic_members``, ``migration``) checks first, then
puts records. So a replay of the log gives the same group, by construction. Nothing in here knows a clock, a
log or a socket: the moment, the topics and the settings come in with every event
(:class:`~tidelog.groups.consumer.view.View`), records and an answer go out.
"""
