"""Transactions of producers: which partitions belong to one, and how it ends in all of them or in none.

Pure: requests and the clock come in, responses, records and markers come out. One
:class:`~tidelog.transactions.shard.TransactionShard` holds the transactional ids of one partition of
``__transaction_state``; which state may follow which is data in :mod:`~tidelog.transactions.states`, the
rules of each request are functions in :mod:`~tidelog.transactions.rules`.
"""
