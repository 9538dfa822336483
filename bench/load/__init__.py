"""The load generators: a process of their own that takes jobs as JSON lines and answers with what it
measured.

One process serves a whole bench, so that no round pays for starting Python and every server meets the same
client. The broker's CPU is read here too, at the very moments at which the clock is read.
"""
