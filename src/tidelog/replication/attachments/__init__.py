"""What a replica has besides its log and its state machine, one slot of the driver for each.

The driver (:class:`~tidelog.replication.driver.ReplicaDriver`) tells its attachments what happens to the log,
and asks them what only they know. It never asks which mode a topic has: a mode that lacks something has the
null object in that slot. :mod:`tidelog.replication.modes` is the table of what a mode has.

=========== ============================================== ===================================================
slot        null object                                    attachments
=========== ============================================== ===================================================
voter       ``Appointed``: the controllers name the leader ``Elected``: the replicas vote
voters      ``NoVoters``                                   who keeps the sets of voters that are in the log
restorer    ``NoRestorer``                                 ``Restoring``, while a leader gathers what it lacks
seal        ``NoSeal``                                     ``Pausing``, ``Sealing``: the end before another
                                                           mode
snapshots   ``NoSnapshots``                                ``Snapshots`` stand for the log's beginning
stand_in    ``NoStandIn``                                  ``Backup``, ``AnyVoter``: readers are served while
                                                           nobody leads
successors  ``NoSuccessors``                               ``Successors``: the controllers may have named
                                                           another leader
deletions   ``Deletions``: each member deletes             ``LoggedDeletions``: a deletion is a record
=========== ============================================== ===================================================
"""
