"""``python -m tidelog.config``: print the documentation of all settings."""

import sys

from tidelog.config.document import document

sys.stdout.write(document())
