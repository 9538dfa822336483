"""What dumps do not show: the keys of users in records of the metadata log. A reader of them can act as the
broker towards these users, and guess their passwords at leisure.
"""

import json

from tidelog.controller.records import SECRET_FIELDS
from tidelog.protocol.records import Record

_TYPE = b'"scram-credential-changed"'


def without_secrets(record: Record) -> Record:
    if record.value is None or _TYPE not in record.value:
        return record
    try:
        fields = json.loads(record.value)
    except ValueError:
        return record
    if not isinstance(fields, dict) or not fields.keys() >= SECRET_FIELDS:
        return record
    shown = {name: value for name, value in fields.items() if name not in SECRET_FIELDS}
    return record._replace(value=json.dumps(shown, separators=(",", ":"), ensure_ascii=False).encode())
