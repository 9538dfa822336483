"""Experiments as data: what is run, what is done to it, what is checked."""
