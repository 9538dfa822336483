"""Changes that a person asks for on a page with ``--admin``: what would happen, then doing it.

============= =====================================================================================
module        owns
============= =====================================================================================
``wishes``    JSON of a browser → a change that makes sense, or a sentence
``preview``   what a topic promises before and after, by the planner; pure
``requests``  the changes as Kafka requests; a check only, or for good
``offsets``   where a group would be moved to, and moving it
``producing`` one message
============= =====================================================================================
"""
