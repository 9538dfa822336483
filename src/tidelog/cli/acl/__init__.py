"""``tidelog acl``: access rules."""
