"""A node of the cluster: controller and broker in one process, its membership, and what it reports to the
controllers until they have understood.
"""
