"""The transaction coordinator: tracks the partitions of each transaction and commits or aborts all of them.

Pure: its input is requests and the clock, its output is responses, records and markers. One
:class:`~tidelog.transactions.shard.TransactionShard` holds the transactional ids of one partition of
``__transaction_state``. :mod:`~tidelog.transactions.states` is the table of states and transitions;
:mod:`~tidelog.transactions.rules` has the rules of each request, as functions.
"""
