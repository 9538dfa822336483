"""Records that should be read and are gone: an error or a warning, as ``failOnDataLoss`` says."""

from tidelog.spark.options import warn_once


class ReadFailure(Exception):
    """The base: what was to be read cannot be; the message says what to do."""


class DataLoss(ReadFailure):
    """Records that the query should read are gone."""


def tell_loss(what: str, fails: bool, error: Exception | None = None) -> None:
    """``what`` is a sentence without its full stop."""
    if fails:
        hint = "set failOnDataLoss=false to go on with what there is"
        raise DataLoss(f"{what}. Records are lost; {hint}.") from error
    warn_once(f"{what}. Going on, because failOnDataLoss is false.")
