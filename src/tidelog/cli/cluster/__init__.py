"""``tidelog cluster`` and what is done to brokers: look, drain, unregister."""
