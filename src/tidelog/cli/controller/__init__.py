"""``tidelog controller``: voters of the metadata."""
