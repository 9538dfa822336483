"""A node of the cluster: controller and broker in one process, its membership, and its reports to the
controllers, which are repeated until they have taken effect.
"""
