"""``tidelog profile``: clusters by name."""
