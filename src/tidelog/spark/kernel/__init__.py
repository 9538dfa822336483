"""Record batches as bytes become Arrow columns: compiled loops and the buffers around them.

======== ================================================================================
slots    arguments and results of the loops, as numbered slots of one array
loops    the loops, written for numba
machine  loads, stores and copies by address, for the loops
native   machine code of the loops: from the cache on disk, else compiled by numba
columns  Arrow buffers around one call of the loops
======== ================================================================================

numba takes a second to import and most workers never need it: they load machine code from the cache.
"""
