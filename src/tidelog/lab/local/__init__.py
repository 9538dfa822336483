"""Broker processes on this machine: one, a cluster of them, separate hosts for them."""
