"""Cluster metadata as a log of typed records, and the decisions that add to it.

``records`` are what is written, ``image`` is what they add up to. The other modules turn a request or an
event, together with an image, into records or a refusal: ``leader_assignment`` and ``successions`` decide
which replicas lead and which are in sync, given which brokers are available (``availability``) and the
topic's settings (``rules``); ``brokers`` and ``logs`` handle failures and returns; ``leadership`` and
``reassignment`` handle planned moves; ``topics``, ``configs`` and ``placement`` the rest. ``controller``
holds the broker sessions, the only state that is not in the log. All of it is pure: ids and times come in,
records go out. Where the log is stored, and which node may append to it, is up to a
:class:`~tidelog.controller.store.MetadataStore`.
"""
