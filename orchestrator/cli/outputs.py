"""A file that a command writes besides its result: refused before the work where it would replace what the command reads."""

from __future__ import annotations

import os
from typing import Iterable, Mapping, Optional

from ..errors import UsageError
from ..results.opening import STORE_FILE
from ..results.outfolder import SIDE_FILES


def refuse_replacing(option: str, path: str, inputs: Mapping[str, Optional[str]], runs: Iterable[Optional[str]] = ()) -> None:
    """Raise where a file to be written is one of the inputs, or belongs to the store of a run.

    Parameters
    ----------
    inputs
        Paths by what the user calls them; None for what is not given.
    runs
        Output folders of runs.

    Raises
    ------
    UsageError
        It would be replaced.
    """
    place = os.path.realpath(path)
    for name, given in inputs.items():
        if given is not None and os.path.realpath(given) == place:
            raise UsageError("%s %s: that is the file of %s" % (option, path, name), hint="name another file")
    for out in runs:
        if out is not None and place in [os.path.realpath(os.path.join(out, STORE_FILE + suffix)) for suffix in SIDE_FILES]:
            raise UsageError("%s %s: that is the store of %s itself" % (option, path, out), hint="name another file")
