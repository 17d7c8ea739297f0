"""Starts another Python (the framework's own) so that it sees goldwatch and its own packages, and
none of ours.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Dict, Iterator, List, Optional, Tuple

from ..base.errors import EnvironmentProblem, UsageError
from ..base.naming import printable

_PROBE_TIMEOUT_S = 60
_OLDEST = (3, 7)


@contextlib.contextmanager
def child_environment(extra: Optional[Dict[str, str]] = None) -> Iterator[Dict[str, str]]:
    """Yield the environment variables for a child Python; its ``import goldwatch`` finds this very
    package and nothing beside it.

    A temporary folder with only ``goldwatch/`` (links to the package's files, however it was
    installed) stands first on PYTHONPATH. The user's own PYTHONPATH stays (pycaffe is usually found
    by it), less the folder that our own package came from.

    Parameters
    ----------
    extra
        Variables to add or to replace.
    """
    folder = tempfile.mkdtemp(prefix="goldwatch-child-")
    try:
        _link_package(os.path.join(folder, "goldwatch"))
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONHOME", "__PYVENV_LAUNCHER__")
        }
        environment["PYTHONPATH"] = os.pathsep.join([folder] + _user_paths())
        environment.update(extra or {})
        yield environment
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _package_folders() -> Dict[str, str]:
    """Return ``{name below goldwatch: folder}`` for the package itself (empty name) and for
    sub-packages that lie elsewhere.
    """
    adapters = os.path.dirname(os.path.abspath(__file__))
    package = os.path.dirname(os.path.abspath(str(sys.modules[__name__.split(".")[0]].__file__)))
    return {"": package, "adapters": adapters}


def _link_package(target: str) -> None:
    os.mkdir(target)
    folders = _package_folders()
    for name in sorted(os.listdir(folders[""])):
        if name not in folders:
            _link(os.path.join(folders[""], name), os.path.join(target, name))
    _link(folders["adapters"], os.path.join(target, "adapters"))


def _link(source: str, target: str) -> None:
    try:
        os.symlink(source, target)
    except OSError:
        if os.path.isdir(source):
            shutil.copytree(source, target)
        else:
            shutil.copyfile(source, target)


def _user_paths() -> List[str]:
    package_paths = {
        os.path.realpath(os.path.dirname(folder)) for folder in _package_folders().values()
    }
    package_paths.add(os.path.realpath(_package_folders()[""]))
    entries = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return [entry for entry in entries if os.path.realpath(entry) not in package_paths]


def resolve_python(python: str) -> str:
    """Return the absolute path of a Python named by the user (a path, or a command found on PATH).

    Raises
    ------
    UsageError
        There is no such program.
    EnvironmentProblem
        It does not start, is not a Python, or is older than 3.7.
    """
    executable = shutil.which(python)
    if executable is None:
        raise UsageError(
            "`python` %s: no such program" % printable(python),
            hint="give the path of the Python that has the framework",
        )
    executable = os.path.abspath(executable)
    code = "import sys; print('goldwatch-python %d.%d' % sys.version_info[:2])"
    status, out = _output([executable, "-c", code])
    words = out.split()
    if status != 0 or len(words) != 2 or words[0] != "goldwatch-python":
        text = printable(out.strip()[-300:]) or "it printed nothing"
        raise EnvironmentProblem(
            "`python` %s does not run as a Python (exit code %d): %s"
            % (printable(python), status, text)
        )
    version = tuple(int(part) for part in words[1].split("."))
    if version < _OLDEST:
        raise EnvironmentProblem(
            "`python` %s is Python %s; goldwatch needs 3.7 or later" % (printable(python), words[1])
        )
    return executable


def prefix_of(python: str) -> Optional[str]:
    """Return the folder of the environment that a Python belongs to (its ``sys.prefix``), or None
    when it does not run.
    """
    status, out = _output([python, "-c", "import sys; print(sys.prefix)"])
    return out.strip() if status == 0 else None


def runs(python: str, code: str) -> Optional[str]:
    """Run a line of code in a child Python and return None when it succeeds, else the last line of
    what it wrote.

    No module of the current folder is imported: it may hold one of any name.
    """
    with child_environment() as environment:
        status, out = _output(
            [
                python,
                "-c",
                "import sys; sys.path[:] = [entry for entry in sys.path if entry]\n" + code,
            ],
            environment,
        )
    if status == 0:
        return None
    lines = [line.strip() for line in out.splitlines() if line.strip()]
    return lines[-1] if lines else "exit code %d" % status


def _output(command: List[str], environment: Optional[Dict[str, str]] = None) -> Tuple[int, str]:
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, "no answer within %d s" % _PROBE_TIMEOUT_S
    except OSError as error:
        return -1, str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")
