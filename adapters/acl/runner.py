"""The runner ``pyacl``: a command line like that of ais_bench, whose work is done by a child in the
host's own Python.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import tempfile
from typing import Any, Dict, List, NoReturn, Optional, Sequence

from ...base.errors import EXIT_INTERRUPTED, GoldwatchError, UsageError
from ...base.naming import printable
from ..child.parent import OURS, Task, run_child

_MODULE = "goldwatch.adapters.acl.child"
_LOGS = "what AscendCL logged is below ~/ascend/log, or where ASCEND_PROCESS_LOG_PATH says"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m goldwatch.adapters.acl", description="Run an om by way of pyACL."
    )
    parser.add_argument("--python", default=sys.executable, help="the Python that has acl")
    parser.add_argument("--model", required=True, help="the .om")
    parser.add_argument(
        "--input",
        default="",
        help="raw files of the inputs, in the om's order, with commas between them; none: zeros",
    )
    parser.add_argument("--output", required=True, help="a folder that exists")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--acl_json_path", help="the dump configuration")
    parser.add_argument("--dymBatch", type=int)
    parser.add_argument("--dymHW", help="224,224")
    parser.add_argument("--dymDims", help="x:1,3,224,224;y:1")
    parser.add_argument("--dymShape", help="x:1,3,224,224;y:1")
    parser.add_argument(
        "--outputSize", default="", help="of a dynamic shape: the bytes of each output, or more"
    )
    return parser


def job_of(options: argparse.Namespace) -> Dict[str, Any]:
    """Return the job for the child; raises UsageError for an option that is not a number."""
    try:
        return {
            "model": os.path.abspath(options.model),
            "inputs": [os.path.abspath(path) for path in options.input.split(",") if path],
            "output": os.path.abspath(options.output),
            "device": options.device,
            "config": os.path.abspath(options.acl_json_path) if options.acl_json_path else None,
            "batch": options.dymBatch,
            "size": [int(size) for size in options.dymHW.split(",")] if options.dymHW else None,
            "dims": _shapes(options.dymDims) if options.dymDims else None,
            "shape": _shapes(options.dymShape) if options.dymShape else None,
            "output_bytes": [int(size) for size in options.outputSize.split(",") if size],
        }
    except ValueError as error:
        raise UsageError("an option holds no number where one is wanted: %s" % error) from None


def _shapes(text: str) -> Dict[str, List[int]]:
    shapes = {}
    for entry in text.split(";"):
        name, _, dims = entry.rpartition(":")
        shapes[name] = [int(dim) for dim in dims.split(",")]
    return shapes


def run(arguments: Optional[Sequence[str]] = None) -> int:
    """Run an om and return the exit code; errors are printed on stderr.

    Raises
    ------
    GoldwatchError
        It cannot be run because of an option, a file, or a function of pyACL.
    """
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="goldwatch-acl-") as folder:
        outcome = run_child(Task(options.python, _MODULE, job_of(options), output=OURS), folder)
    if outcome.interrupted:
        return EXIT_INTERRUPTED
    if outcome.died:
        print(
            "pyacl: the process was %s while it ran the om; what it said is above" % outcome.how,
            file=sys.stderr,
        )
        print("  hint: %s" % _LOGS, file=sys.stderr, flush=True)
        # End with the signal that ended the child, so that the caller sees the same; without a
        # core file of this process.
        number = -outcome.returncode
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    if outcome.returncode or "result" not in outcome.messages:
        raise outcome.problem("pyACL", _LOGS)
    for path in outcome.messages["result"]["outputs"]:
        print(printable(path))
    return 0


def main() -> NoReturn:
    """Run the command line and exit."""
    try:
        sys.exit(run())
    except GoldwatchError as error:
        print("pyacl: %s" % printable(error.message), file=sys.stderr)
        if error.hint:
            print("  hint: %s" % printable(error.hint), file=sys.stderr)
        sys.exit(error.exit_code)
