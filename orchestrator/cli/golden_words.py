"""What the library says of golden folders, in the words of the command line."""

from __future__ import annotations

import contextlib
from typing import Iterator

from ..adapters.manifest import GoldenExists


@contextlib.contextmanager
def golden_words() -> Iterator[None]:
    """Name the options in the hints of what is raised inside."""
    try:
        yield
    except GoldenExists as error:
        error.hint = "choose an empty folder, or add --force to replace them"
        raise
