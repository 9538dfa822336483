"""What a replica has besides its log and its state machine: one slot of the driver for each.

The driver (:class:`~tidelog.replication.driver.ReplicaDriver`) tells its attachments what happens to the log,
and queries them for what only they know. It never checks which mode a topic has: a mode that does not need an
attachment has the null object in that slot. :mod:`tidelog.replication.modes` is the table of the modes.

=========== ============================================== ===================================================
slot        null object                                    attachments
=========== ============================================== ===================================================
voter       ``Appointed``: controllers appoint the leader  ``Elected``: the replicas vote
voters      ``NoVoters``                                   ``LogVoters``: keeps the voter sets in the log
restorer    ``NoRestorer``                                 ``Restoring``: copies back what a new leader lacks
seal        ``NoSeal``                                     ``Pausing``, ``Sealing``: end the log before a
                                                           change of mode
snapshots   ``NoSnapshots``                                ``ReplicaSnapshots``: replace the beginning of the
                                                           log
stand_in    ``NoStandIn``                                  ``Backup``, ``AnyVoter``, ``AnyMember``: serve
                                                           readers while there is no leader; ``AnyMember``: a
                                                           leader that lost records steps down
successors  ``NoSuccessors``                               ``Successors``: replicas that the controllers may
                                                           have appointed instead; ``NamedByOperator``: a
                                                           backup that an operator may have promoted
deletions   ``Deletions``: each replica deletes            ``MemberDeletions``: all members are waited for;
                                                           ``CopiedDeletions``: as many replicas as a write
                                                           needs copies, with three or more;
                                                           ``LoggedDeletions``: a deletion is a record
=========== ============================================== ===================================================
"""
