"""The cluster's metadata on this node: the metadata log, its snapshots and its voters."""
