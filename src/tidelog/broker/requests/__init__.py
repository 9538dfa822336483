"""Code that handlers share: the context of a request, decisions of the controller, parts of responses."""
