"""What a snapshot of the metadata contains."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller.image import ClusterImage
from tidelog.controller.records import BrokerConfigChanged, ClusterFounded, TopicCreated
from tidelog.controller.snapshot import image_of, texts_of
from tidelog.errors import StorageError
from unit.controller.snapshots import an_image


class TestContents:
    def test_an_image_comes_back_as_it_was(self) -> None:
        assert image_of(texts_of(an_image())) == an_image()
        assert image_of(texts_of(ClusterImage())) == ClusterImage()

    @given(
        st.lists(st.text(min_size=1), unique=True),
        st.dictionaries(st.text(), st.dictionaries(st.text(), st.text())),
    )
    def test_whatever_its_names_and_values(
        self, names: list[str], configs: dict[str, dict[str, str]]
    ) -> None:
        image = ClusterImage().apply(
            [
                ClusterFounded("c"),
                *[TopicCreated(name, UUID(int=place), [[1]], {}) for place, name in enumerate(names)],
                *[BrokerConfigChanged(broker, dict(values)) for broker, values in configs.items()],
            ]
        )
        assert image_of(texts_of(image)) == image

    def test_a_field_that_nobody_wrote_has_its_default(self) -> None:
        texts = [text for text in texts_of(an_image()) if b"next_producer_id" not in text]
        assert image_of(texts).next_producer_id == 0

    @pytest.mark.parametrize(
        "text", [b'{"field":"weather","value":1}', b'{"field":"cluster_id","value":1}', b"\xff", b"{}"]
    )
    def test_what_is_not_understood_is_refused(self, text: bytes) -> None:
        with pytest.raises(StorageError):
            image_of([text])
