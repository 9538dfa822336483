"""Consumer groups whose partitions the broker assigns (KIP-848).

The state of a group is defined by its records. :class:`~tidelog.groups.consumer.group.ConsumerGroup` keeps
the newest record of each key. The modules that make decisions (``heartbeats``, ``classic_members``,
``migration``) first check the request and then put records. So a replay of the log always gives the same
group. This package uses no clock, log or socket: each event contains the time, the topics and the settings
(:class:`~tidelog.groups.consumer.view.GroupContext`), and the output is records and a response.
"""
