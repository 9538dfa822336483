"""``python -m tidelog`` is the same as ``tidelog``."""

import sys

from tidelog.cli import main

sys.exit(main())
