"""Which backend runs a model, and in which Python: a Caffe of the user's own where one can be
imported, else our own operators.
"""

from __future__ import annotations

import os
import sys
from dataclasses import field
from typing import Dict, List, NamedTuple, Optional

from ...base.errors import EnvironmentProblem, GoldwatchError, MissingPath, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable
from ..child_python import prefix_of, resolve_python, runs


class Backend(NamedTuple):
    """How a backend is looked for: a line of Python that fails without it, how it is had, and the
    environment that it runs in.
    """

    probe: str
    install: str
    environment: Dict[str, str]


BACKENDS = {
    "caffe": Backend(
        "import caffe; caffe.Net",
        "name a Python that has pycaffe with `python=PATH` (and its python folder on "
        "PYTHONPATH), or use `backend=numpy`",
        # glog's information lines are of no use to the user; errors and fatal messages stay.
        {"GLOG_minloglevel": "2"},
    ),
    # One thread: matrices are cut into slices that fit a core's cache, and threads only wait for
    # each other there.
    "numpy": Backend("import numpy", "it is part of goldwatch", {"OPENBLAS_NUM_THREADS": "1"}),
}
RANDOM_WEIGHTS, LAYER = "random_weights", "layer"
_ALONE = {
    RANDOM_WEIGHTS: "it alone makes up weights",
    LAYER: "it alone computes layers of one's own",
}
# The whole import error in one line: also the one that an __init__.py met and put another in place
# of.
_PROBE = """import sys
sys.path[1:1] = %r
sys.path += %r
try:
    %s
except BaseException as error:
    errors = []
    while error is not None:
        errors.append("%%s: %%s" %% (type(error).__name__, " ".join(str(error).split())))
        error = error.__cause__ or error.__context__
    print("; ".join(errors))
    sys.exit(1)
"""


@dataclass(frozen=True)
class ModulePaths:
    """Where a child Python finds modules beside its own: the same for looking whether a backend is
    there and for running it.

    Attributes
    ----------
    before
        The Caffe that the user named.
    after
        The current folder, and the prototxt's own: Python layers lie there.
    """

    before: List[str] = field(default_factory=list)
    after: List[str] = field(default_factory=list)

    @classmethod
    def of(cls, prototxt: str, caffe_root: Optional[str] = None) -> ModulePaths:
        """Return the paths for a model.

        Raises
        ------
        MissingPath
            ``caffe_root`` holds no package ``caffe``.
        """
        after = [os.getcwd(), os.path.dirname(os.path.abspath(prototxt))]
        if caffe_root is None:
            return cls([], after)
        for folder in (os.path.join(caffe_root, "python"), caffe_root):
            if os.path.isfile(os.path.join(folder, "caffe", "__init__.py")):
                return cls([os.path.abspath(folder)], after)
        message = "%s holds no python/caffe/__init__.py" % printable(caffe_root)
        raise MissingPath(
            message, hint="give the folder in which Caffe was built, or its distribute folder"
        )


@dataclass(frozen=True)
class Chosen:
    """The backend to use, the Python to run it in, why it was taken, and what is to be told of
    that.
    """

    backend: str
    python: str
    notes: List[str] = field(default_factory=list)
    reason: str = "it was asked for"

    @property
    def environment(self) -> Dict[str, str]:
        """The backend's environment variables; what the user has set himself stays."""
        variables: Dict[str, str] = BACKENDS[self.backend].environment
        return {
            name: os.environ.get(name, value) if self.backend == "caffe" else value
            for name, value in variables.items()
        }


def choose_backend(
    backend: str,
    python: Optional[str],
    paths: Optional[ModulePaths] = None,
    numpy_option: Optional[str] = None,
) -> Chosen:
    """Return the backend to use.

    Parameters
    ----------
    backend
        ``caffe``, ``numpy``, or ``auto``: caffe where it can be imported, else numpy (a
        Caffe named by its folder must be there).
    python
        The only Python to look into; else caffe is looked for in this one and in those on PATH.
    numpy_option
        An option that the numpy backend alone knows: :data:`RANDOM_WEIGHTS` or :data:`LAYER`.

    Raises
    ------
    UsageError
        There is no such backend; or that option, and another backend.
    EnvironmentProblem
        The backend (or with ``auto``, either) cannot be imported there.
    """
    paths = paths or ModulePaths()
    if backend != "auto" and backend not in BACKENDS:
        raise UsageError(
            "there is no backend %r" % backend, hint="one of auto, " + ", ".join(BACKENDS)
        )
    if numpy_option is not None and backend not in ("auto", "numpy"):
        raise UsageError(
            "`%s` is for the numpy backend" % numpy_option,
            hint="leave out `backend`, or give `backend=numpy`",
        )
    if backend == "numpy":
        return Chosen(backend, sys.executable)
    if numpy_option is not None:
        return Chosen(
            "numpy",
            sys.executable,
            ["backend numpy: " + _ALONE[numpy_option]],
            _ALONE[numpy_option],
        )
    here = [resolve_python(python)] if python is not None else [sys.executable]
    problems: List[str] = []
    without: List[str] = []
    for candidate in here if python is not None else here + _system_pythons():
        code = _PROBE % (paths.before, paths.after, BACKENDS["caffe"].probe)
        problem = runs(candidate, code)
        if problem is None:
            sentence = "Caffe is there, in %s" % printable(candidate)
            return (
                Chosen("caffe", candidate, ["backend caffe: " + sentence], sentence)
                if backend == "auto"
                else Chosen("caffe", candidate)
            )
        if problem == "ModuleNotFoundError: No module named 'caffe'":
            without.append(printable(candidate))
        else:
            problems.append("caffe in %s: %s" % (printable(candidate), printable(problem)))
    problems += ["no module caffe in %s" % " and ".join(without)] if without else []
    if backend == "auto" and not paths.before:
        reason = "Caffe was not used: %s" % "; ".join(problems)
        return Chosen("numpy", sys.executable, ["backend numpy: " + reason], reason)
    raise EnvironmentProblem(
        "no backend to run the model: " + "; ".join(problems), hint=BACKENDS["caffe"].install
    )


def _system_pythons() -> List[str]:
    """Return the Pythons on PATH that belong to other environments than this one: a self-built
    Caffe is usually found by one of them.
    """
    pythons: Dict[str, str] = {}
    for name in ("python3", "python"):
        try:
            path = resolve_python(name)
        except GoldwatchError:
            continue
        # Environments may share one interpreter file, so files are not compared.
        prefix = prefix_of(path)
        if prefix is not None and os.path.realpath(prefix) != os.path.realpath(sys.prefix):
            pythons.setdefault(prefix, path)
    return list(pythons.values())
