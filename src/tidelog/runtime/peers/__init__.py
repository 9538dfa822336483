"""Connections between the nodes of a cluster: messages of replicas and controllers as Kafka requests.

Nodes exchange one-way messages (:mod:`tidelog.replication.messages`, :mod:`tidelog.broker.node.node`); here a
question becomes a request on a connection of ours to the other node, and the message that answers it becomes
the response to the request with the question. Nothing is decided here.
"""
