"""Which topics a pipeline reads, and how: the few options that all pipelines share, as one value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics of a cluster: names separated by commas, or a pattern."""

    bootstrap: str
    names: str = ""
    pattern: str = ""
    options: Mapping[str, str] = field(
        default_factory=dict
    )  # of the source: kafka.*, maxOffsetsPerTrigger, …

    def read_stream(self, spark: "SparkSession", **more: str) -> "DataFrame":
        """As a stream from the beginning, unless the options say otherwise."""
        reader = spark.readStream.format("tidelog").options(**self._options(more))
        return reader.load()

    def read(self, spark: "SparkSession", **more: str) -> "DataFrame":
        return spark.read.format("tidelog").options(**self._options(more)).load()

    def stream_options(self) -> dict[str, str]:
        """Of a stream from these topics, for those who plan what to read themselves."""
        return self._options({})

    def _options(self, more: Mapping[str, str]) -> dict[str, str]:
        chosen = {"subscribePattern": self.pattern} if self.pattern else {"subscribe": self.names}
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            "startingOffsets": "earliest",
            "kafka.isolation.level": "read_committed",
            **chosen,
            **more,
            **self.options,
        }
