"""Hypothesis fails no example for being slow: a busy machine says nothing about the code."""

from hypothesis import settings

settings.register_profile("tidelog", deadline=None)
settings.load_profile("tidelog")
