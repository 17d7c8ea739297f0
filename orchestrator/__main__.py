"""``goldwatch`` and ``python -m goldwatch``: the command line, Ctrl-C answered from the first moment on."""

from __future__ import annotations

import contextlib
import sys

from goldwatch.interrupts import heed_interrupts


def main() -> None:
    """Run the command line and exit."""
    heed_interrupts()
    try:
        from goldwatch.cli import main as run

        run()
    except KeyboardInterrupt:
        # Before the command line is there: stderr may be closed.
        with contextlib.suppress(OSError, AttributeError):
            sys.stderr.write("goldwatch: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
