"""Work of the driver that is finished even if the driver's process ends meanwhile.

When a driver exits with a query in the middle of a batch, Spark asks the writer to abort and kills its Python
processes a moment later. A child process in a session of its own is not killed with them.
"""

import os
import signal
from collections.abc import Callable

_LIMIT_S = 60


def finish(work: Callable[[], None]) -> None:
    """Returns when the work is done; errors in it are dropped."""
    if not hasattr(os, "fork"):
        work()
        return
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_LIMIT_S)
            work()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
