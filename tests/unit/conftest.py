"""What all unit tests share.

Hypothesis fails no example for being slow: a busy machine says nothing about the code. It draws other
examples with every run, unless ``TIDELOG_TEST_EXAMPLES=same`` asks for those of the last one, as CI does. And
unit tests may use the raw client of ``tests/interop``, whose requests and answers are built by kio and not by
the code under test. Helpers are imported by their full name, e.g. ``unit.broker.fakes``.
"""

import os
import sys
from pathlib import Path

from hypothesis import Phase, settings

sys.path.insert(0, str(Path(__file__).parents[1]))

settings.register_profile(
    "tidelog",
    deadline=None,
    derandomize=os.environ.get("TIDELOG_TEST_EXAMPLES") == "same",
    # Explaining traces every line of a failing example, many times: the test's own timeout would come first.
    phases=[phase for phase in Phase if phase is not Phase.explain],
)
settings.load_profile("tidelog")
