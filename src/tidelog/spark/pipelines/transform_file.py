"""The file that describes a transformation: YAML with the SQL in it, or SQL with the YAML in its first
comment.

Owns the allowed keys, and reports wrong ones. See docs/spark-pipelines.md for examples.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.decoding import Decoding, Encoding
from tidelog.spark.pipelines.source import Topics
from tidelog.spark.pipelines.transform import Output, Source, Transform
from tidelog.spark.schemas.registry import RegistrySettings

_TOP = ("sources", "sql", "output", "checkpoint", "every", "bootstrap")
_SCHEMA = ("format", "schema", "registry", "registry_options", "subject", "message")
_SOURCE = ("topic", "pattern", *_SCHEMA, "schema_ids", "watermark", "bootstrap", "options")
_OUTPUT = ("topic", "table", "key", "mode", "options", *_SCHEMA)


def read_transform(path: str, *, bootstrap: str) -> Transform:
    """``bootstrap`` is the default cluster."""
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} cannot be read: {_why_unread(error)}.") from None
    return parse_transform(text, path, bootstrap=bootstrap)


def parse_transform(text: str, name: str, *, bootstrap: str) -> Transform:
    said = _loaded(text, name)
    _check(said, _TOP, name, needed=("sources", "sql", "output", "checkpoint"))
    bootstrap = str(said.get("bootstrap", bootstrap))
    sources = said["sources"]
    if not isinstance(sources, dict) or not sources:
        raise OptionError(f"{name}: 'sources' names no view.")
    return Transform(
        {view: _source(one, f"{name}: sources.{view}", bootstrap) for view, one in sources.items()},
        str(said["sql"]),
        _output(said["output"], f"{name}: output"),
        str(said["checkpoint"]),
        bootstrap,
        None if said.get("every") is None else str(said["every"]),
    )


def _loaded(text: str, name: str) -> dict[str, Any]:
    import yaml

    comment, sql = _leading_comment(text) if name.endswith(".sql") else (text, "")
    try:
        said = yaml.safe_load(comment)
    except yaml.YAMLError as error:
        raise OptionError(f"{name} is not valid YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(said, dict):
        raise OptionError(f"{name} is empty; it needs sources, output and checkpoint.")
    return {**said, "sql": sql} if sql.strip() else said


def _leading_comment(text: str) -> tuple[str, str]:
    lines = text.splitlines()
    count = next((at for at, line in enumerate(lines) if not line.startswith("--")), len(lines))
    inner = [line[2:].removeprefix(" ") for line in lines[:count]]
    return "\n".join(inner), "\n".join(lines[count:])


def _source(said: Any, where: str, bootstrap: str) -> Source:
    _check(said, _SOURCE, where)
    if bool(said.get("topic")) == bool(said.get("pattern")):
        raise OptionError(f"{where} needs a topic or a pattern, and not both.")
    topics = Topics(
        str(said.get("bootstrap", bootstrap)),
        str(said.get("topic", "")),
        str(said.get("pattern", "")),
        _options(said, where),
    )
    decoding = None
    if said.get("format", "binary") != "binary":
        decoding = Decoding(
            str(said["format"]), ids=_ids(said.get("schema_ids", []), where), **_schema(said, where)
        )
    return Source(topics, decoding, str(said.get("watermark", "")))


def _schema(said: Mapping[str, Any], where: str) -> dict[str, Any]:
    """What sources and outputs say about their schema."""
    schema = str(said.get("schema", ""))
    if schema.startswith("@"):
        try:
            schema = Path(schema[1:]).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = _why_unread(error)
            raise OptionError(f"{where}: the schema {schema[1:]} cannot be read: {reason}.") from None
    found: dict[str, Any] = {"schema": schema, "message": str(said.get("message", "")), "subject": ""}
    if "registry" in said:
        found["registry"] = RegistrySettings.of(
            str(said["registry"]), _options(said, where, "registry_options")
        )
        topic = str(said.get("topic", ""))
        found["subject"] = str(said.get("subject", f"{topic}-value" if topic and "," not in topic else ""))
    return found


def _why_unread(error: OSError | UnicodeDecodeError) -> str:
    return str(error.strerror) if isinstance(error, OSError) else "it is not text"


def _ids(said: Any, where: str) -> tuple[int, ...]:
    if not isinstance(said, list) or not all(type(one) is int for one in said):
        raise OptionError(f"{where}.schema_ids is not a list of numbers.")
    return tuple(said)


def _output(said: Any, where: str) -> Output:
    _check(said, _OUTPUT, where)
    words = {key: str(said[key]) for key in ("topic", "table", "key", "mode") if key in said}
    encoding = None
    if said.get("format", "json") != "json":
        encoding = Encoding(str(said["format"]), **_schema(said, where))
    return Output(**words, options=_options(said, where), encoding=encoding)


def _options(said: Mapping[str, Any], where: str, key: str = "options") -> dict[str, str]:
    options = said.get(key, {})
    if not isinstance(options, dict):
        raise OptionError(f"{where}.{key} is not a mapping of names to values.")
    return {
        str(key): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in options.items()
    }


def _check(said: Any, allowed: Iterable[str], where: str, needed: Iterable[str] = ()) -> None:
    if not isinstance(said, dict):
        raise OptionError(f"{where} is not a mapping of names to values.")
    for word in said:
        if word not in allowed:
            raise OptionError(f"{where} has no {word!r}; there are {', '.join(allowed)}.")
    for word in needed:
        if word not in said:
            raise OptionError(f"{where} lacks {word!r}.")
