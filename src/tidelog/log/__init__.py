"""One replica's log on disk, and the directory that holds all of a broker's logs.

===================  =====================================================================
``log``              :class:`~tidelog.log.log.Log`, made of ``appending``, ``reading``, ``shortening``,
                     ``syncing`` and the ``state`` they share
``row``              its segments in order; ``segment``, ``index``, ``scan`` what is in one
``opening``          from files to a log, with recovery; ``swap`` what compaction left half done
``durability``       what survives a power failure; ``sync`` one group commit
``epochs``           which leader epoch began where; ``offset_mark`` where the log does
``directory``        :class:`~tidelog.log.directory.DataDirectory`: all logs of a broker
``storage``          what is needed from a disk; ``handles`` how many open files
===================  =====================================================================

Knows neither who replicates a log nor what time it is; touches files through ``storage`` only.
"""
