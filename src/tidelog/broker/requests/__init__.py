"""What handlers share: the request's context, ways to the controller and other brokers, common parts of answers."""
