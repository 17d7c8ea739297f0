"""``goldwatch`` and ``python -m goldwatch``: the command line, Ctrl-C answered from the first moment on."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line and exit."""
    try:
        from goldwatch.interrupts import heed_interrupts

        heed_interrupts()
        # Files and rows are many, and none is in a cycle: looking for cycles as often as by default costs 7 % of the time.
        gc.set_threshold(20000, 10, 10)
        from goldwatch.cli import main as run

        run()
    except KeyboardInterrupt:
        # Before the command line is there: stderr may be closed.
        if sys.stderr is not None and not sys.stderr.closed:
            sys.stderr.write("goldwatch: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
