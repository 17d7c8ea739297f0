"""numpy without threads of its own: no product here is large enough for them, and OpenBLAS's wait
for work by turning in circles.
"""

from __future__ import annotations

import contextlib
import os
from typing import Iterator

_THREADS = "OPENBLAS_NUM_THREADS"


@contextlib.contextmanager
def importing_unthreaded() -> Iterator[None]:
    """While numpy is imported, perhaps: have it start without threads, unless the user's
    environment says how many.

    The environment is as before afterwards: programs that are started later know nothing of it.
    """
    chosen = _THREADS in os.environ
    os.environ.setdefault(_THREADS, "1")
    try:
        yield
    finally:
        if not chosen:
            del os.environ[_THREADS]
