"""``tidelog debug``: what someone who helps needs to see."""
