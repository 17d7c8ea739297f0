"""Golden data from Caffe models."""

from __future__ import annotations

from .save_blobs import save_blobs

__all__ = ["save_blobs"]
