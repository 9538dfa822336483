"""What a broker refuses, in its own words."""

import pytest

from tidelog.cli.cluster_client import check
from tidelog.cli.failure import CommandFailed
from tidelog.errors import ErrorCode


def test_a_refusal_is_a_sentence() -> None:
    with pytest.raises(CommandFailed, match=r"^There is no broker 7 \(INVALID_REQUEST\)\.$"):
        check(ErrorCode.INVALID_REQUEST, "there is no broker 7.")


def test_names_of_settings_keep_their_letters() -> None:
    with pytest.raises(CommandFailed, match=r"^log\.dir cannot be changed \(INVALID_CONFIG\)\.$"):
        check(ErrorCode.INVALID_CONFIG, "log.dir cannot be changed")


def test_without_words_the_name_of_the_error() -> None:
    with pytest.raises(CommandFailed, match=r"^Request timed out \(REQUEST_TIMED_OUT\)\.$"):
        check(ErrorCode.REQUEST_TIMED_OUT)
    check(ErrorCode.NONE)
