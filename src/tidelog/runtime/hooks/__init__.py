"""Faults inside of a broker process, on request of the lab: of its disk and of its clock.

A broker is told of them by an environment variable, which names a directory (:data:`VARIABLE`). Without it
nothing of this package is imported, and nothing is slower. The lab knows this package's files; both sides of
their formats are here.
"""

VARIABLE = "TIDELOG_LAB"
