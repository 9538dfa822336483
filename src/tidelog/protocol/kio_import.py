"""Imports kio without its test extras.

kio imports hypothesis whenever it is installed, which costs a broker half a second and 15 MB. While kio is
loading, hypothesis is hidden, unless a test has already loaded it.
"""

import sys

_HIDDEN = ("hypothesis", "hypothesis.strategies")
_hide = not any(name in sys.modules for name in _HIDDEN)
if _hide:
    for _name in _HIDDEN:
        sys.modules[_name] = None  # type: ignore[assignment]
try:
    from kio.index import load_entity_schema, load_request_schema, load_response_schema
    from kio.schema.index import api_key_map, schema_name_map
    from kio.serial import entity_reader, entity_writer
    from kio.static.constants import EntityType
finally:
    if _hide:
        for _name in _HIDDEN:
            del sys.modules[_name]

__all__ = [
    "EntityType",
    "api_key_map",
    "entity_reader",
    "entity_writer",
    "load_entity_schema",
    "load_request_schema",
    "load_response_schema",
    "schema_name_map",
]
