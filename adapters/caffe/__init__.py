"""Golden data from Caffe models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .save_blobs import save_blobs

__all__ = ["save_blobs"]


def __getattr__(name: str) -> Any:
    """Import :func:`save_blobs` when it is asked for: the command line needs no numpy before its child runs."""
    if name == "save_blobs":
        from .save_blobs import save_blobs

        return save_blobs
    raise AttributeError(name)
