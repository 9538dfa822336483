"""Partitions whose replicas elect their leader: their voters, and the transfer of leadership."""
