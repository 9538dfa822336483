"""Protobuf schemas of a registry as descriptors, without a compiler if the registry has them serialized.

Confluent's registry, Karapace and Redpanda return a schema as a serialized descriptor if asked (``format=
serialized``). Where only text is at hand, the compiler of ``grpcio-tools`` is used if it is installed.
"""

import base64
import binascii
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tidelog.spark.options import OptionError
from tidelog.spark.schemas.registry import Registered, Registry

_MAIN = "tidelog-schema.proto"
_WELL_KNOWN = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp",
    "type", "wrappers",
)  # fmt: skip
_META = "confluent/meta.proto"
_DECIMAL = "confluent/type/decimal.proto"


def file_descriptor(
    schema: Registered, referenced: Sequence[tuple[str, Registered]], registry: Registry | None
) -> Any:
    """The ``FileDescriptor`` of a schema, in a pool of its own."""
    try:
        from google.protobuf import descriptor_pool
    except ModuleNotFoundError:
        raise OptionError(
            "Protobuf needs protobuf, which is not installed: pip install 'tidelog[schemas]'."
        ) from None
    pool = descriptor_pool.DescriptorPool()
    texts = {name: one.text for name, one in referenced}
    for name, one in (*referenced, (_MAIN, schema)):
        described = _serialized(one, registry) or _compiled(name, one.text, texts)
        described.name = name
        _add_imports(pool, described)
        try:
            pool.Add(described)
        except TypeError as error:
            raise OptionError(f"The Protobuf schema is invalid: {' '.join(str(error).split())}.") from None
    return pool.FindFileByName(_MAIN)


def _serialized(schema: Registered, registry: Registry | None) -> Any:
    """None: there is only text."""
    text = schema.text
    if registry is not None and schema.id:
        found = registry.by_id(schema.id, form="serialized")
        text = text if found is None else found.text
    return _parsed(text)


def _parsed(text: str) -> Any:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        content = base64.b64decode(text.strip(), validate=True)
        described = descriptor_pb2.FileDescriptorProto.FromString(content)
    except (binascii.Error, ValueError, DecodeError):
        return None
    return described if described.message_type or described.enum_type else None


def _compiled(name: str, text: str, texts: dict[str, str]) -> Any:
    from google.protobuf import descriptor_pb2

    try:
        import grpc_tools
        from grpc_tools import protoc
    except ModuleNotFoundError:
        raise OptionError(
            "This Protobuf schema is text, which must be compiled: pip install 'tidelog[schemas]'."
        ) from None
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as directory:
        for path, content in {**_CONFLUENT, **texts, name: text}.items():
            target = Path(directory, path)
            if not target.resolve().is_relative_to(Path(directory).resolve()):
                raise OptionError(f"The Protobuf schema imports {path}, which is no relative path.")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
        out = Path(directory, "tidelog-out.bin")
        arguments = ["protoc", f"-I{directory}", f"-I{well_known}", f"--descriptor_set_out={out}", name]
        if protoc.main(arguments) or not out.exists():
            raise OptionError("The Protobuf schema is invalid: the compiler's message is above.")
        found = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    return found.file[0]


def _add_imports(pool: Any, described: Any) -> None:
    """Those that every registry has built in."""
    for name in described.dependency:
        try:
            pool.FindFileByName(name)
        except KeyError:
            if (content := _built_in(name)) is None:
                raise OptionError(
                    f"The Protobuf schema imports {name}, which is not one of its references."
                ) from None
            _add_imports(pool, content)
            pool.Add(content)


def _built_in(name: str) -> Any:
    from google.protobuf import descriptor_pb2

    found = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto3")
    word = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if word in _WELL_KNOWN:
        import_module(f"google.protobuf.{word}_pb2").DESCRIPTOR.CopyToProto(found)
    elif name == _DECIMAL:
        message = found.message_type.add(name="Decimal")
        found.package = "confluent.type"
        for number, (field, kind) in enumerate((("value", 12), ("precision", 13), ("scale", 5)), 1):
            message.field.add(name=field, number=number, type=kind, label=1)
    elif name != _META:  # it holds options only, which say nothing about values
        return None
    return found


_CONFLUENT = {
    _DECIMAL: (
        'syntax = "proto3"; package confluent.type; '
        "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"
    ),
}
