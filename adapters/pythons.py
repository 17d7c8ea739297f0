"""The Pythons on this machine, one of which may have a framework that the running one lacks."""

from __future__ import annotations

import glob
import os
import re
from typing import Iterator, List, Tuple

from ..base.errors import InputError
from ..base.safe_reading import read_input

_NAME = re.compile(r"python(3(\.\d+)?)?")
_CONDA_LIST = "~/.conda/environments.txt"
_CONDA_LIST_BYTES = 1 << 20


def on_path(*names: str) -> Iterator[str]:
    """Yield the paths of the Pythons on PATH.

    Parameters
    ----------
    names
        Programs of these names in this order, such as ``python3.7``; without any, each ``python``,
        ``python3`` and ``python3.N``.
    """
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder:
            yield from _inside(folder, names)


def in_environments(*names: str) -> Iterator[str]:
    """Yield the paths of the Pythons of pyenv and conda environments, as :func:`on_path`."""
    for environment in dict.fromkeys(_pyenv() + _conda()):
        yield from _inside(os.path.join(environment, "bin"), names)


def _inside(folder: str, names: Tuple[str, ...]) -> Iterator[str]:
    if not names:
        try:
            names = tuple(sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name)))
        except OSError:
            return
    for name in names:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            yield path


def _pyenv() -> List[str]:
    roots = dict.fromkeys(
        root for root in (os.environ.get("PYENV_ROOT"), os.path.expanduser("~/.pyenv")) if root
    )
    return [
        folder
        for root in roots
        for folder in sorted(
            glob.glob(os.path.join(glob.escape(root), "versions", "*")), reverse=True
        )
    ]


def _conda() -> List[str]:
    """Return the environments that conda lists, the active one, and those next to conda's
    program.
    """
    folders = [os.environ["CONDA_PREFIX"]] if os.environ.get("CONDA_PREFIX") else []
    try:
        folders += os.fsdecode(
            read_input(os.path.expanduser(_CONDA_LIST), _CONDA_LIST_BYTES)
        ).split("\n")
    except (InputError, OSError):
        pass
    if os.environ.get("CONDA_EXE"):
        folders += glob.glob(
            os.path.join(
                glob.escape(os.path.dirname(os.path.dirname(os.environ["CONDA_EXE"]))), "envs", "*"
            )
        )
    return [folder for folder in folders if os.path.isabs(folder)]
