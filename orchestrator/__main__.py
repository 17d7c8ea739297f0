"""``goldwatch`` and ``python -m goldwatch``: the command line, Ctrl-C answered from the first moment on."""

from __future__ import annotations

import sys
from typing import Callable, NoReturn


def _command_line() -> Callable[[], NoReturn]:
    """Return what runs the command line; ends with exit code 4 where a package that it is made with is broken."""
    try:
        from goldwatch.cli import main as run

        return run
    except (Exception, SystemExit) as error:
        from goldwatch.doctor.broken import broken_package
        from goldwatch.interrupts import caused_by_interrupt
        from goldwatch.naming import printable

        if caused_by_interrupt(error):
            raise
        broken = broken_package(error)
        if broken is None:
            raise
        if sys.stderr is not None and not sys.stderr.closed:
            sys.stderr.write("goldwatch: %s\n" % printable("%s: %s" % (broken, broken.hint)))
        sys.exit(broken.exit_code)


def main() -> None:
    """Run the command line and exit."""
    try:
        # Imported in here: Python answers a Ctrl-C before with a traceback.
        import gc

        from goldwatch.interrupts import heed_interrupts

        heed_interrupts()
        # Files and rows are many, and none is in a cycle: looking for cycles as often as by default costs 7 % of the time.
        gc.set_threshold(20000, 10, 10)
        _command_line()()
    except (KeyboardInterrupt, Exception) as error:
        from goldwatch.interrupts import caused_by_interrupt

        # A module that is being imported may make another error of it.
        if not caused_by_interrupt(error):
            raise
        # Before the command line is there: stderr may be closed.
        if sys.stderr is not None and not sys.stderr.closed:
            sys.stderr.write("goldwatch: interrupted\n")
        sys.exit(130)
    finally:
        import signal

        if callable(signal.getsignal(signal.SIGINT)):
            # All is done: while Python itself ends, a Ctrl-C would print a traceback.
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
