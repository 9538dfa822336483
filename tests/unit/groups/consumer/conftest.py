"""Tests of consumer groups in a shard use the harness of the classic groups."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
