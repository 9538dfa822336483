"""For stand-ins of a server: at its listeners nobody has to authenticate."""

from types import SimpleNamespace

NO_LOGINS = SimpleNamespace(
    first=lambda connection: None, bytes_max=lambda connection: None, later=lambda connection, client_id: None
)
