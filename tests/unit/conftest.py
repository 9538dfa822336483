"""What all unit tests share.

Hypothesis fails no example for being slow: a busy machine says nothing about the code. It draws other
examples with every run, unless ``TIDELOG_TEST_EXAMPLES`` says otherwise. ``same`` asks for those of the last
run, as CI does. ``few`` asks for fewer, which are the same in every run, as ``./dev test quick`` does.

Unit tests may use the raw client of ``tests/interop``, whose requests and answers are built by kio and not by
the code under test. Helpers are imported by their full name, e.g. ``unit.broker.fakes``.
"""

import os
import sys
from pathlib import Path

from hypothesis import Phase, settings

sys.path.insert(0, str(Path(__file__).parents[1]))

EXAMPLES = os.environ.get("TIDELOG_TEST_EXAMPLES")

settings.register_profile(
    "tidelog",
    deadline=None,
    derandomize=EXAMPLES in ("same", "few"),
    max_examples=30 if EXAMPLES == "few" else 100,  # Where a test does not say how many it needs.
    # Explaining traces every line of a failing example, many times: the test's own timeout would come first.
    phases=[phase for phase in Phase if phase is not Phase.explain],
)
settings.load_profile("tidelog")
