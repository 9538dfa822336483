"""Access rules, applied to requests before their handlers see them.

There is one guard for each API, in :data:`~tidelog.broker.guards.table.GUARDS`. It takes the parts of a
request that its client may not use out of it, and adds their refusals to the response. So a handler need not
know about access rules. Exceptions are Produce, Fetch and Metadata, and those that only mark what the client
may do: they ask :mod:`tidelog.broker.requests.access` themselves, because they choose among many resources
while they work.

Requests of nodes of the cluster are not guarded.
"""
