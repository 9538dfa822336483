"""A drill for archives: producers write, an archive runs as a timer would start it, and everything is killed.

Owns the parts of ``./dev bench archive-drill`` (:mod:`bench.cases.archive_drill`):

==================  ==================================================================
``ledger``          what was written and acknowledged, compared with what is in the table
``writing``         the producers
``topics``          topics of the three modes, deleted and created again
``runs``            ``tidelog pipeline …`` as processes, and the timer that starts them
``events``          what happens to them, drawn from a seed
``tables``          the archive as other programs read it
==================  ==================================================================
"""
