from __future__ import annotations

from stores import make_row, out, store  # noqa: F401  fixtures
