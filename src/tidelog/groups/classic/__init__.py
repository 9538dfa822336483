"""Groups whose members agree on the partitions among themselves: the classic protocol.

The coordinator only collects the members of a generation (JoinGroup), lets one of them, the leader, assign
the partitions, and distributes the assignment (SyncGroup). Requests with an old member id or generation are
refused.

==========================================  =====================================================
:mod:`~tidelog.groups.classic.states`       the states and their transitions
:mod:`~tidelog.groups.classic.membership`   the members, and the protocols they have in common
:mod:`~tidelog.groups.classic.rebalancing`  from a change of members to a new generation
:mod:`~tidelog.groups.classic.joining`      JoinGroup
:mod:`~tidelog.groups.classic.syncing`      SyncGroup and Heartbeat
:mod:`~tidelog.groups.classic.leaving`      LeaveGroup
:mod:`~tidelog.groups.classic.group`        the group as a whole, with the checks for offsets
==========================================  =====================================================
"""
