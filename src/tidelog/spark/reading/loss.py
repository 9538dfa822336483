"""Records that should be read and are gone: an error or a warning, as ``failOnDataLoss`` says."""

from tidelog.spark.options import warn_once


class DataLoss(Exception):
    """Records that the query should read are gone."""


def tell_loss(what: str, fails: bool, error: Exception | None = None) -> None:
    """``what`` is a sentence without its full stop."""
    if fails:
        hint = "set failOnDataLoss=false to go on with what there is"
        raise DataLoss(f"{what}. Records are lost; {hint}.") from error
    warn_once(f"{what}. Going on, because failOnDataLoss is false.")
