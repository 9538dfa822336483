"""Files that describe a transformation and cannot be read: one sentence each."""

from pathlib import Path

import pytest

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.transform_file import parse_transform, read_transform

NOT_TEXT = b"\xff\xfe\x00 not text"


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "totals.yaml"
    path.write_bytes(NOT_TEXT)
    with pytest.raises(OptionError, match=r"totals\.yaml cannot be read: it is not text\."):
        read_transform(str(path), bootstrap="127.0.0.1:9092")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot be read: No such file or directory"):
        read_transform(str(tmp_path / "nosuch.yaml"), bootstrap="127.0.0.1:9092")


def test_a_schema_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "orders.avsc"
    path.write_bytes(NOT_TEXT)
    text = f"""
sources: {{orders: {{topic: orders, format: avro, schema: "@{path}"}}}}
sql: select * from orders
output: {{topic: copies}}
checkpoint: /data/checkpoint
"""
    with pytest.raises(
        OptionError, match=r"sources\.orders: the schema .*avsc cannot be read: it is not text"
    ):
        parse_transform(text, "copies.yaml", bootstrap="127.0.0.1:9092")
