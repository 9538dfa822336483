"""Records that should be read and are gone: an error or a warning, as ``failOnDataLoss`` says."""

from tidelog.spark.options import warn_once


class ReadFailure(Exception):
    """The base: what was to be read cannot be; the message says what to do."""


class DataLoss(ReadFailure):
    """Records that the query should read are gone."""


def tell_loss(
    what: str, fails: bool, error: Exception | None = None, then: str = "with what there is"
) -> None:
    """``what`` is a sentence without its full stop; ``then`` says how the query goes on if it may."""
    if fails:
        raise DataLoss(f"{what}; records are lost: set failOnDataLoss=false to go on {then}.") from error
    warn_once(f"{what}. Going on {then}, because failOnDataLoss is false.")
