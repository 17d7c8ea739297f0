"""All that may explain why goldwatch does not work here, or slowly, as one document
(schemas/doctor.schema.json).
"""

from __future__ import annotations

import glob
import locale
import os
import platform
import resource
import sys
from typing import Any, Callable, Dict, Optional

from .. import __version__
from ..errors import GoldwatchError
from ..launch.atc import find_atc
from ..processes.pool import default_jobs
from ..system.memory import memory
from ..system.proc_files import text_of
from .checks import PROBLEM, findings_of
from .dump_folder import Tick, most_watches, place
from .packages import EXTRAS, FRAMEWORKS, NEEDED, all_pythons, name_of, own_python, states

_LOCALE = ("LC_ALL", "LC_CTYPE", "LANG", "PYTHONUTF8", "PYTHONIOENCODING")

Document = Dict[str, Any]


def diagnose(
    path: str, tick: Tick = lambda count: None, begin: Callable[[str], None] = lambda what: None
) -> Document:
    """Return what is known of this installation, this machine and a folder, and what of it is
    wrong.

    What is merely absent is no finding. Packages are imported, and other Pythons asked, in other
    processes: none can do harm here.

    Parameters
    ----------
    path
        Where dumps are, or will be.
    tick
        Called with the number of folders found below it, now and then.
    begin
        Called with what is looked at next, in words, before each part that may take long: none
        takes more than about a minute.

    Raises
    ------
    MissingPath
        ``path`` does not exist.
    EnvironmentProblem
        The running Python cannot be started once more.
    """
    begin("the folders below %s" % path)
    document: Document = {
        "goldwatch": __version__,
        "python": {"version": platform.python_version(), "path": own_python()},
        "system": " ".join([platform.system(), platform.release(), platform.machine()]),
        "toolkit": _toolkit(),
        "processors": default_jobs(),
        "memory": memory(),
        "open_files": _open_files(),
        "locale": {
            "variables": {name: os.environ[name] for name in _LOCALE if os.environ.get(name)},
            "encoding": locale.getpreferredencoding(False),
            "file_names": sys.getfilesystemencoding(),
        },
        "place": place(path, tick),
        "inotify_watches": most_watches(),
    }
    begin("packages: %s" % ", ".join(map(name_of, NEEDED)))
    document["packages"] = states(NEEDED)
    begin(
        "extras: %s" % ", ".join(name_of(one) for _, modules in EXTRAS.values() for one in modules)
    )
    document["extras"] = [
        {"name": name, "brings": brings, "packages": states(modules)}
        for name, (brings, modules) in EXTRAS.items()
    ]
    begin("other Pythons and their frameworks")
    pythons = all_pythons()
    document["pythons"] = len(pythons)
    document["frameworks"] = [
        dict(state, python=python.path, python_version=python.version)
        for framework in FRAMEWORKS
        for python in pythons
        for state in python.states
        if state["name"] == framework and state["version"] is not None
    ]
    document["kernel"] = _kernel(document)
    document["findings"] = findings_of(document)
    document["usable"] = all(one["severity"] != PROBLEM for one in document["findings"])
    return document


def _toolkit() -> Optional[Dict[str, str]]:
    """Return where the vendor's toolkit is, and its version; None where no atc is found.

    Source: the vendor's installation guide, which has users look into this file.
    """
    atc = find_atc()
    if atc is None:
        return None
    folder, version = atc.toolkit or atc.path, ""
    for path in glob.glob(os.path.join(glob.escape(folder), "*", "ascend_toolkit_install.info")):
        named = dict(line.partition("=")[::2] for line in text_of(path).splitlines())
        version = named.get("version", "").strip()
    return {"path": folder, "version": version or "unknown"}


def _open_files() -> Any:
    """Return how many files the process may open; None without a limit."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if most == resource.RLIM_INFINITY else most


def _kernel(document: Document) -> Document:
    """Return what computes the metrics and why, or the problem for which nothing does; neither
    where a package is broken that it needs.
    """
    about = problem = None
    if all(one["version"] is not None and not one["problem"] for one in document["packages"]):
        from ..metrics.compiled.choice import about_kernel

        try:
            about = about_kernel()
        except GoldwatchError as error:
            problem = "%s: %s" % (error, error.hint)
    return {"about": about, "problem": problem}
