"""One module per replication mode. The rest of the code never checks which mode a topic has; it uses the
topic's policy. Which mode has which policy is in :mod:`tidelog.replication.modes`.
"""
