"""A stand-in for an Ascend host: its compiler, its runners and its Python module ``acl``, as far as
public documents tell them.

:func:`make_host` makes the folder; docs/reference/testing.md tells what is imitated and what
nobody can know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.lazy_imports import imported_when_used

if TYPE_CHECKING:
    from .host_config import HostConfig
    from .host_folder import Host, make_host

__all__ = ["Host", "HostConfig", "make_host"]

if not TYPE_CHECKING:
    __getattr__ = imported_when_used(
        __name__, host_config=("HostConfig",), host_folder=("Host", "make_host")
    )
