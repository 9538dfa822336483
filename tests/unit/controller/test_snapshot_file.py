"""Files with a snapshot of the metadata: complete, or not believed."""

from uuid import UUID

import pytest

from tidelog.controller import snapshot_file
from tidelog.controller.image import ClusterImage, TopicImage
from tidelog.controller.snapshot_file import Contents, snapshot_named
from tidelog.errors import StorageError
from tidelog.types import SnapshotId
from unit.controller.snapshots import contents, file_of


class TestFile:
    def test_name(self) -> None:
        name = snapshot_file.name_of(SnapshotId(1234, 7))
        assert name == "00000000000000001234-0000000007.checkpoint"
        assert snapshot_named(name) == SnapshotId(1234, 7)
        for other in ("00000000000000001234.log", name + ".part", name + ".tmp", "quorum-state"):
            assert snapshot_named(other) is None

    def test_what_is_written_is_what_is_read(self) -> None:
        assert snapshot_file.decode(file_of(contents())) == contents()

    def test_a_large_image_is_many_batches(self) -> None:
        large = {f"t{n}": TopicImage(f"t{n}", UUID(int=n), (), {"k": "v" * 900}) for n in range(900)}
        image = ClusterImage(topics=large)
        what = Contents(SnapshotId(1, 1), image, b"")
        assert snapshot_file.decode(file_of(what)) == what
        assert len(list(snapshot_file.encode(what, 0))) > 4

    def test_a_file_that_is_cut_anywhere_is_no_snapshot(self) -> None:
        data = file_of(contents())
        for size in range(len(data)):
            with pytest.raises(StorageError):
                snapshot_file.decode(data[:size])
        with pytest.raises(StorageError):
            snapshot_file.decode(data + b"x")

    def test_nor_is_one_with_a_flipped_bit_in_what_it_says(self) -> None:
        data = file_of(contents())
        unharmed = 0
        for position in range(len(data)):
            damaged = bytearray(data)
            damaged[position] ^= 0x10
            try:
                # A batch's offset and epoch are not under its CRC, and nobody reads them here.
                assert snapshot_file.decode(bytes(damaged)) == contents()
                unharmed += 1
            except StorageError:
                pass
        assert unharmed <= 12 * len(list(snapshot_file.encode(contents(), 0)))
