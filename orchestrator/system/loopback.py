"""Whether an address is this machine's own."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether a host, a name or an IP address with or without brackets, is reached from this
    machine only.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
