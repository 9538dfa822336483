"""A log to dump."""

from pathlib import Path

import pytest

from tidelog.protocol.codecs import Codec
from unit.cli.log.segments import NAME, make_batch


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three batches with offsets 100-102, 103-103 (compacted: gap to 110), 110-111."""
    path = tmp_path / "orders-0" / f"{NAME}.log"
    path.parent.mkdir()
    path.write_bytes(
        make_batch(100, 3, Codec.ZSTD) + make_batch(103, 1) + make_batch(110, 2, timestamp=1_800_000_000_000)
    )
    return path
