"""Connections between the nodes of a cluster: messages of replicas and controllers as Kafka requests.

Nodes exchange one-way messages (:mod:`tidelog.replication.messages`, :mod:`tidelog.broker.node.node`). This
package sends a question as a request on a connection to the other node, and the message that answers it as
the response to that request. It makes no decisions.
"""
