"""The outputs of a network as programs that run an om write them.

Source of the names: public documentation and sources of ais_bench and msame.
"""

from __future__ import annotations

import os
from typing import Any, List, Sequence

import numpy as np

from ..base.errors import UsageError

RUNNERS = ("ais_bench", "msame")
FORMS = ("bin", "npy", "txt")
_NAMES = {"ais_bench": "%s_%d.%s", "msame": "%s_output_%d.%s"}
_TIMES = {"ais_bench": "2026_01_02-03_04_05", "msame": "20260102_030405"}


def write_outputs(
    folder: str,
    outputs: Sequence[Any],
    runner: str = RUNNERS[0],
    form: str = FORMS[0],
    sample: str = "pure_infer_data",
) -> List[str]:
    """Write arrays in the order of an om's outputs into a folder of a time below ``folder``; return
    the files' paths.

    Parameters
    ----------
    runner
        ``ais_bench`` or ``msame``: whose names they have.
    form
        ``bin``: the elements; ``npy``; ``txt``: numbers with blanks between them, a line for each
        row.
    sample
        What the first input's file is called, without its ending.

    Raises
    ------
    UsageError
        There is no such runner or form.
    """
    if runner not in RUNNERS or form not in FORMS:
        raise UsageError(
            "%s, %s: expected one of %s, and one of %s"
            % (runner, form, ", ".join(RUNNERS), ", ".join(FORMS))
        )
    place = os.path.join(folder, _TIMES[runner])
    os.makedirs(place, exist_ok=True)
    paths = []
    for number, values in enumerate(map(np.asarray, outputs)):
        path = os.path.join(place, _NAMES[runner] % (sample, number, form))
        if form == "bin":
            values.tofile(path)
        elif form == "npy":
            np.save(path, values)
        else:
            np.savetxt(
                path,
                values.reshape(-1, values.shape[-1] if values.ndim else 1),
                "%d" if values.dtype.kind in "iub" else "%.9g",
            )
        paths.append(path)
    return paths
