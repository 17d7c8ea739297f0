"""The SHA-256 of a file."""

from __future__ import annotations

import hashlib

from .safe_reading import open_input

_WINDOW_BYTES = 1024 * 1024


def sha256_of_file(path: str) -> str:
    """Return the SHA-256 of a file's bytes as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with open_input(path) as stream:
        while True:
            block = stream.read(_WINDOW_BYTES)
            if not block:
                return digest.hexdigest()
            digest.update(block)
