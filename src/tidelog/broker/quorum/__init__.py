"""Partitions whose replicas elect their leader: their voters, and the hand-over of leadership."""
