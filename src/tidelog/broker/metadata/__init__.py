"""The cluster's metadata on this node: the log on a quorum of controllers, its snapshots and its voters."""
