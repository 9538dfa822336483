"""Converts the image to a series of small JSON texts, the contents of a snapshot, and back.

There is one text for each plain field of the image and one for each entry of each mapping, so that a cluster
of ten thousand topics is not one text of a hundred megabytes. The fields come from the declaration of the
image: a new field needs no change here. If a field is missing (an older version wrote the snapshot), it gets
its default.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from tidelog.controller.image import ClusterImage
from tidelog.errors import StorageError


class _Entry(msgspec.Struct, omit_defaults=True):
    field: str
    value: msgspec.Raw
    key: msgspec.Raw = msgspec.Raw(b"")  # of mappings only


class _Field:
    """Writes and reads one field of the image."""

    def __init__(self, name: str, hint: Any) -> None:
        self.name = name
        self.is_mapping = get_origin(hint) is Mapping
        key, value = get_args(hint) if self.is_mapping else (str, hint)
        self._key: msgspec.json.Decoder[Any] = msgspec.json.Decoder(key)
        self._value: msgspec.json.Decoder[Any] = msgspec.json.Decoder(value)

    def texts(self, value: Any) -> Iterator[bytes]:
        encode = msgspec.json.encode
        if not self.is_mapping:
            yield encode(_Entry(self.name, msgspec.Raw(encode(value))))
            return
        for key, each in value.items():
            yield encode(_Entry(self.name, msgspec.Raw(encode(each)), msgspec.Raw(encode(key))))

    def read(self, entry: _Entry, fields: dict[str, Any]) -> None:
        value = self._value.decode(entry.value)
        if self.is_mapping:
            fields.setdefault(self.name, {})[self._key.decode(entry.key)] = value
        else:
            fields[self.name] = value


@cache
def _fields() -> dict[str, _Field]:
    hints = get_type_hints(ClusterImage)
    return {
        field.name: _Field(field.name, hints[field.name]) for field in msgspec.structs.fields(ClusterImage)
    }


def texts_of(image: ClusterImage) -> Iterator[bytes]:
    for name, field in _fields().items():
        yield from field.texts(getattr(image, name))


def image_of(texts: Iterable[bytes]) -> ClusterImage:
    """Refuses unknown fields: ignoring one would lead to another state."""
    fields: dict[str, Any] = {}
    known = _fields()
    try:
        for text in texts:
            entry = msgspec.json.decode(text, type=_Entry)
            known[entry.field].read(entry, fields)
    except (msgspec.DecodeError, KeyError, UnicodeDecodeError) as error:
        raise StorageError(f"cannot read a snapshot: {error}; is it from a newer version?") from None
    return ClusterImage(**fields)
