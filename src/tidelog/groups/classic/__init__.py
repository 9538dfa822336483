"""Groups whose members agree on the partitions among themselves: the classic protocol.

The coordinator only gathers members into a generation (JoinGroup), lets one of them, the leader, assign the
partitions, and hands the assignment out (SyncGroup). Whoever acts with the id or the generation of the past
is refused.

==========================================  =====================================================
:mod:`~tidelog.groups.classic.states`       the states, and every way from one to another
:mod:`~tidelog.groups.classic.membership`   who is in the group, and what they can agree on
:mod:`~tidelog.groups.classic.rebalancing`  from "somebody came or went" to a new generation
:mod:`~tidelog.groups.classic.joining`      JoinGroup
:mod:`~tidelog.groups.classic.syncing`      SyncGroup and Heartbeat
:mod:`~tidelog.groups.classic.leaving`      LeaveGroup
:mod:`~tidelog.groups.classic.group`        all of it together, and what offsets ask of a group
==========================================  =====================================================
"""
