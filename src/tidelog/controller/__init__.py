"""Cluster metadata as a log of typed records, and the decisions that add to it.

``records`` are what is written, ``image`` is what they add up to, ``topics`` and ``configs`` turn a wish and
an image into records or a refusal, ``placement`` spreads replicas. All of it is pure: ids and times come in,
records go out. Where the log lives and who may append to it is the business of a
:class:`~tidelog.controller.store.MetadataStore`.
"""
