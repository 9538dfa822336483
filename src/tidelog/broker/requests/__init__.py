"""What handlers share: the request's context, the ways to the controller and to other
brokers, common parts of answers.
"""
