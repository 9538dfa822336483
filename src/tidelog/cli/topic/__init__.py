"""``tidelog topic``: topics, their leaders, replicas and modes."""
