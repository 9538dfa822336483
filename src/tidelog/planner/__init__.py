"""The one model of promises: settings and placement × faults → what goes on, what may be lost.

Pure arithmetic without clocks, files, sockets or chance. ``tidelog modes``, the verdicts of the lab and
``tidelog plan`` ask it.

================================== ==========================================================================
module                             owns
================================== ==========================================================================
``promises``                       what differs from mode to mode, as a table, and its words
``faults``                         where replicas and controllers are; sets of faults
``outages``                        one moment: who leads, who writes, who can be read
``losses``                         which acknowledged records a set of faults may cost
``model``                          :func:`~tidelog.planner.model.outcome`: all of it for one set of faults
``terms``                          settings of a topic as a cluster tells them → what its promise depends on
``what_if``                        a cluster at one moment, and what faults would do to its partitions
``fault_sets``                     the minimal sets that stop writes, stop reads or lose records
``racks``                          the same for racks that lose power
``needs``                          needs → settings that satisfy them, and why others do not
``years``                          probability of a loss and minutes without writes, from failure rates
``costs``                          latency and throughput, from what was measured on a machine
``wishes``                         which settings are fast enough
``translation``                    settings of other systems
================================== ==========================================================================
"""
