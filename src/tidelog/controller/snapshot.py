"""Converts the image to a series of small JSON texts, the contents of a snapshot, and back.

There is one text for each plain field of the image and one for each entry of each mapping and each set, so
that a cluster of ten thousand topics is not one text of a hundred megabytes. The fields of an image within
the image have its name before theirs: ``security.acls``. The fields come from the declaration of the image: a
new field needs no change here. If a field is missing (an older version wrote the snapshot), it gets
its default.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from tidelog.controller.image import ClusterImage
from tidelog.errors import StorageError

T = TypeVar("T", bound=msgspec.Struct)


class _Entry(msgspec.Struct, omit_defaults=True):
    field: str
    value: msgspec.Raw
    key: msgspec.Raw = msgspec.Raw(b"")  # of mappings only


class _Field:
    """Writes and reads one field of the image."""

    def __init__(self, name: str, hint: Any) -> None:
        self.name = name
        self.is_mapping = get_origin(hint) is Mapping
        self.is_set = get_origin(hint) is frozenset
        key, value = get_args(hint) if self.is_mapping else (str, hint)
        if self.is_set:
            (value,) = get_args(hint)
        self._key: msgspec.json.Decoder[Any] = msgspec.json.Decoder(key)
        self._value: msgspec.json.Decoder[Any] = msgspec.json.Decoder(value)

    def texts(self, value: Any) -> Iterator[bytes]:
        encode = msgspec.json.encode
        if self.is_set:
            for each in sorted(value):
                yield encode(_Entry(self.name, msgspec.Raw(encode(each))))
            return
        if not self.is_mapping:
            yield encode(_Entry(self.name, msgspec.Raw(encode(value))))
            return
        for key, each in value.items():
            yield encode(_Entry(self.name, msgspec.Raw(encode(each)), msgspec.Raw(encode(key))))

    def read(self, entry: _Entry, fields: dict[str, Any]) -> None:
        value = self._value.decode(entry.value)
        if self.is_mapping:
            fields.setdefault(self.name, {})[self._key.decode(entry.key)] = value
        elif self.is_set:
            fields.setdefault(self.name, set()).add(value)
        else:
            fields[self.name] = value


@cache
def _fields() -> dict[str, _Field]:
    return {field.name: field for field in _fields_of(ClusterImage, "")}


def _fields_of(struct: type[msgspec.Struct], prefix: str) -> Iterator[_Field]:
    hints = get_type_hints(struct)
    for field in msgspec.structs.fields(struct):
        hint = hints[field.name]
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            yield from _fields_of(hint, f"{prefix}{field.name}.")
        else:
            yield _Field(prefix + field.name, hint)


def texts_of(image: ClusterImage) -> Iterator[bytes]:
    for name, field in _fields().items():
        yield from field.texts(attrgetter(name)(image))


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
    return _built(ClusterImage, "", fields)


def _built(struct: type[T], prefix: str, fields: Mapping[str, Any]) -> T:
    """What was not written has its default."""
    values: dict[str, Any] = {}
    hints = get_type_hints(struct)
    for field in msgspec.structs.fields(struct):
        hint, name = hints[field.name], prefix + field.name
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            values[field.name] = _built(hint, f"{name}.", fields)
        elif name in fields:
            value = fields[name]
            values[field.name] = frozenset(value) if isinstance(value, set) else value
    return struct(**values)
