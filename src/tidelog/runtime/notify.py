"""What the service manager hears of this process: systemd's notifications (``sd_notify``), if it asks.

It names a datagram socket in ``NOTIFY_SOCKET``. A broker does not depend on whether anyone listens there.
"""

import os
import socket
from contextlib import suppress

VARIABLE = "NOTIFY_SOCKET"
READY = "READY=1"
STOPPING = "STOPPING=1"


def notify(state: str) -> None:
    address = os.environ.get(VARIABLE)
    if not address:
        return
    if address.startswith("@"):  # an abstract address has no file
        address = f"\0{address[1:]}"
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
        sender.sendto(state.encode(), address)
