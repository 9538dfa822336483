"""``tidelog log``: what is in the files of a data directory."""
