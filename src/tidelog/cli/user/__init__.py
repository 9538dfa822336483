"""``tidelog user``: users and their passwords."""
