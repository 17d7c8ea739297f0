"""``goldwatch`` and ``python -m goldwatch``: the command line, Ctrl-C answered from the first moment on."""

from __future__ import annotations

import sys
from typing import Any, Callable, NoReturn


def main(module: str = "goldwatch.cli") -> NoReturn:
    """Run the ``main`` of a module that holds a command line, and exit."""
    try:
        # Imported in here: Python answers a Ctrl-C before with a traceback.
        from goldwatch.interrupts import exit_code_of

        code = exit_code_of(lambda: _run(module))
    except (KeyboardInterrupt, Exception) as error:
        code = _interrupted(error)
    sys.exit(code)


def _run(module: str) -> Any:
    try:
        import gc

        from goldwatch.interrupts import heed_interrupts

        heed_interrupts()
        # Files and rows are many, and none is in a cycle: looking for cycles as often as by default costs 7 % of the time.
        gc.set_threshold(200000, 10, 10)
        return _command_line(module)()
    except (KeyboardInterrupt, Exception) as error:
        return _interrupted(error)


def _command_line(module: str) -> Callable[[], NoReturn]:
    """Return what runs the command line; ends with exit code 4 where a package that it is made with is broken."""
    try:
        import importlib

        run: Callable[[], NoReturn] = importlib.import_module(module).main
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
        _tell("%s: %s" % (printable(str(broken)), printable(str(broken.hint))))
        sys.exit(broken.exit_code)


def _interrupted(error: BaseException) -> int:
    """Tell that a Ctrl-C was what is being handled, and return the exit code; anything else is raised again."""
    from goldwatch.errors import EXIT_INTERRUPTED
    from goldwatch.interrupts import caused_by_interrupt

    # A module that is being imported may make another error of it.
    if not caused_by_interrupt(error):
        raise error
    _tell("interrupted")
    return EXIT_INTERRUPTED


def _tell(message: str) -> None:
    # Before the command line is there: stderr may be closed.
    if sys.stderr is not None and not sys.stderr.closed:
        sys.stderr.write("goldwatch: %s\n" % message)


if __name__ == "__main__":
    main()
