"""Loads and faults on a cluster that `tidelog up` runs on this machine, for the page.

A process of its own: no load is in a broker's or the page's event loop, and it ends with the page.

============ ====================================================================================
module       owns
============ ====================================================================================
``programs`` whether a process runs Tidelog
``links``    which broker reaches which through which port of the relay: ``DIR/links.json``
``relay``    the relay between brokers, a process of `tidelog up --demo`
``cutting``  cuts, as the relay is told of them
``brokers``  the broker processes of a directory: which run, how one is started
``topics``   the four topics, one for each way to replicate
``course``   latencies over time, in slices of half a second
``load``     one load: its writer, its reader, what became of its records
``faults``   what is broken now, and what was: the bands of a plot
``ground``   all of it: commands in, snapshots out
``process``  the process: a line of JSON for each command, answer and snapshot
============ ====================================================================================
"""
