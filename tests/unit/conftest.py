"""What all unit tests share.

Hypothesis fails no example for being slow: a busy machine says nothing about the code. And unit tests may use
the raw client of ``tests/interop``, whose requests and answers are built by kio and not by the code under
test.
"""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent.parent))

settings.register_profile("tidelog", deadline=None)
settings.load_profile("tidelog")
