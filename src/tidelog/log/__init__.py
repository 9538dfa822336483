"""One replica's log on disk, and the directory that holds all of a broker's logs.

===================  =====================================================================
``log``              :class:`~tidelog.log.log.Log`, composed of ``appending``, ``reading``, ``shortening``,
                     ``syncing`` and the ``state`` they share
``row``              its segments in order; ``segment``, ``index``, ``scan``: the content of one
``opening``          from files to a log, with recovery; ``swap``: compactions that a crash interrupted
``durability``       what survives a power failure; ``sync``: one group commit
``epochs``           which leader epoch began where; ``offset_mark``: where the log starts
``directory``        :class:`~tidelog.log.directory.DataDirectory`: all logs of a broker
``storage``          what is needed from a disk; ``handles``: the limit of open files
===================  =====================================================================

Knows neither replication nor the clock; touches files through ``storage`` only.
"""
