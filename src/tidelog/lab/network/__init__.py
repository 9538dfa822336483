"""Network faults without root: a relay in user space between all parties of a cluster."""
