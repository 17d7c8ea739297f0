"""``goldwatch`` and ``python -m goldwatch``: the command line, with Ctrl-C handled from the
start."""

from __future__ import annotations

import os
import sys

# The module signal takes milliseconds to import, in which Python would answer a Ctrl-C by itself;
# this one is built in.
from _signal import SIGINT, default_int_handler, getsignal, signal  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, NoReturn

_INTERRUPTED = b"goldwatch: interrupted\n"
_EXIT_INTERRUPTED = 130


def main(module: str = "goldwatch.cli") -> NoReturn:
    """Run the ``main`` of a module that holds a command line, and exit."""
    try:
        if getsignal(SIGINT) is default_int_handler:
            signal(SIGINT, leave)
        import gc

        from goldwatch.base.interrupts import exit_code_of

        code = exit_code_of(lambda: _run(module))
        # All that is left goes with the process: Python need not look through it for cycles first.
        gc.freeze()
    except KeyboardInterrupt:
        leave()
    sys.exit(code)


def leave(*_: Any) -> NoReturn:
    """End the process at a Ctrl-C while modules are imported, when nothing needs cleaning up yet.

    An exception might be dropped there (in a weak reference's callback) or replaced (in the body of
    a class).
    """
    if sys.stderr is not None:
        try:
            os.write(2, _INTERRUPTED)
        except OSError:
            pass
    os._exit(_EXIT_INTERRUPTED)


def _run(module: str) -> Any:
    try:
        import gc

        # Files and rows are many, and none is in a cycle: looking for cycles as often as by default
        # costs 7 % of the time.
        gc.set_threshold(1000000, 10, 10)
        run = _command_line(module)
        from goldwatch.base.interrupts import handle_interrupts

        if getsignal(SIGINT) is leave:
            signal(SIGINT, default_int_handler)
            handle_interrupts()
        return run()
    except (KeyboardInterrupt, Exception) as error:
        return _interrupted(error)


def _command_line(module: str) -> Callable[[], NoReturn]:
    """Return what runs the command line; ends with exit code 4 where a package that it is made with
    is broken.
    """
    try:
        import importlib

        run: Callable[[], NoReturn] = importlib.import_module(module).main
        return run
    except (Exception, SystemExit) as error:
        from goldwatch.base.naming import printable
        from goldwatch.tools.doctor.packages import broken_package

        broken = broken_package(error)
        if broken is None:
            raise
        _tell("%s: %s" % (printable(str(broken)), printable(str(broken.hint))))
        sys.exit(broken.exit_code)


def _interrupted(error: BaseException) -> int:
    """Report a Ctrl-C that is being handled and return the exit code; re-raise anything else."""
    from goldwatch.base.interrupts import caused_by_interrupt

    # A module that is being imported may make another error of it.
    if not caused_by_interrupt(error):
        raise error
    _tell("interrupted")
    return _EXIT_INTERRUPTED


def _tell(message: str) -> None:
    # Before the command line is there: stderr may be closed.
    if sys.stderr is not None and not sys.stderr.closed:
        sys.stderr.write("goldwatch: %s\n" % message)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        # It came as main was called.
        leave()
