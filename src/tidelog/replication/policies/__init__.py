"""One module per replication mode. Nothing outside asks which mode a topic has; it asks the topic's
policy.
"""

from tidelog.replication.policies import isr

BY_NAME = {"isr": isr.IsrPolicy()}
"""``replication.mode`` → its policy."""
