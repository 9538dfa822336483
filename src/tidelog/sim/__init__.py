"""A whole cluster in one process and in simulated time, with faults drawn from a seed.

The pure parts run as they are: state machines, log, controller. Simulated are the clock, the network, the
disk and the moment at which a process dies. The same seed gives the same run, to the byte of its trace.
"""
