"""Cluster metadata as a log of typed records, and the decisions that add to it.

``records`` are what is written, ``image`` is what they add up to. Everything else turns a wish or an event
and an image into records or a refusal: ``elections`` who leads and who is in sync, given where brokers stand
(``standing``) and what a topic's settings say (``rules``); ``brokers`` and ``logs`` that come and go;
``leadership`` and ``reassignment`` on purpose; ``topics``, ``configs``, ``placement``. ``controller`` holds
the sessions, the only state that is not in the log. All of it is pure: ids and times come in, records go out.
Where the log lives and who may append to it is the business of a
:class:`~tidelog.controller.store.MetadataStore`.
"""
