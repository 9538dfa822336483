"""A whole cluster in one process and in simulated time, with faults drawn from a seed.

The pure parts run unchanged: state machines, log, controller. Simulated are the clock, the network, the disk
and process failures. The same seed gives the same run, to the byte of its trace.
"""
