"""The table of the modes."""

from tidelog.config import modes as settings
from tidelog.replication.modes import MODES, Leaders


def test_every_mode_has_its_policy() -> None:
    assert MODES.keys() == settings.MODES
    assert (MODES["isr"].policy.tracks_in_sync, MODES["isr"].leaders) == (True, Leaders.APPOINTED)
    assert (MODES["quorum"].policy.tracks_in_sync, MODES["quorum"].leaders) == (False, Leaders.ELECTED)
