"""A page that shows what replication is doing: a process of its own, beside the brokers.

It talks to brokers as any client does (the Kafka protocol, and HTTP for figures of their processes), and
works with every cluster that speaks the protocol. What it shows follows from what it has seen (``facts``) by
pure functions.

================== ===========================================================================================
module             owns
================== ===========================================================================================
``asking``         questions to brokers, blocking
``facts``          what was seen, as plain values
``rates``          records per second
``failover``       the stages of the last failover
``story``          differences between what was seen → events, in sentences
``promises``       what a topic promises in its present state, asked of the planner
``state``          facts → the table of values that browsers get
``pace``           how often to ask
``broker_watch``   the questions that are asked of one broker, again and again
``watcher``        all of them, the metadata, and telling subscribers what changed
``views``          what single views ask for: a topic, its messages, groups, what would happen if
``changes``        changes that a person asks for: what would happen, then doing it
``guard``          who may ask the page: hosts, origins, headers, and the token of changes
``posted``         what a browser sends
``playground``     the process with loads and faults, which the lab owns; here is only the pipe to it
``server``         HTTP: the routes, server-sent events, static files
``static``         what runs in the browser: plain modules, no build step
================== ===========================================================================================
"""
