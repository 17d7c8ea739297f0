"""The user's own conversions: ``format_convert/convert_{A}_to_{B}.py`` with ``def convert(shape_from, shape_to, array)``.

Source of the interface: the vendor's public documents. The array is flat; ``shape_to`` may be None. The user's code runs in a Python of its
own, so that what it does to itself is one tensor's reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..errors import NotComparable, UsageError, require_folder
from ..tensors.dtypes import Array
from ..tensors.formats import format_code, format_name

FOLDER = "format_convert"
TIMEOUT_S = 60.0
_TOLD_LETTERS = 300

_CHILD = """
import importlib.util, json, sys
import numpy as np
script, source, result, shapes = sys.argv[1:5]
shape_from, shape_to = json.loads(shapes)
spec = importlib.util.spec_from_file_location("user_conversion", script)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
array = module.convert(shape_from, shape_to, np.load(source, allow_pickle=False))
np.save(result, np.asarray(array), allow_pickle=False)
"""


class UserConversions:
    """The conversions in a folder; they win over the built-in ones of the same pair.

    Parameters
    ----------
    folder
        Holds ``format_convert``; None for no conversions.

    Raises
    ------
    UsageError
        There is no such folder, or it holds no conversion.
    """

    def __init__(self, folder: Optional[str] = None) -> None:
        self._scripts: Dict[Tuple[str, str], str] = {}
        if folder is None:
            return
        require_folder(folder, "folder of conversions")
        scripts = os.path.join(folder, FOLDER)
        for name in sorted(os.listdir(scripts)) if os.path.isdir(scripts) else ():
            pair = _pair(name)
            if pair is not None:
                self._scripts[pair] = os.path.join(scripts, name)
        if not self._scripts:
            raise UsageError("%s holds no %s/convert_A_to_B.py" % (folder, FOLDER), hint="A and B are layouts, such as NC1HWC0 and NCHW")

    def has(self, layout_from: str, layout_to: str) -> bool:
        """Tell whether the user converts this pair."""
        return (layout_from, layout_to) in self._scripts

    def convert(
        self, layout_from: str, layout_to: str, shape_from: Sequence[int], shape_to: Optional[Sequence[int]], array: Array
    ) -> Array:
        """Run the user's conversion and return what it returns.

        Raises
        ------
        NotComparable
            It raised, took longer than a minute, or returned another number of elements than ``shape_to`` has, or another type.
        """
        script = self._scripts[(layout_from, layout_to)]
        with tempfile.TemporaryDirectory(prefix="goldwatch-convert-") as folder:
            source, result = os.path.join(folder, "source.npy"), os.path.join(folder, "result.npy")
            np.save(source, array.reshape(-1))
            shapes = json.dumps([list(shape_from), None if shape_to is None else list(shape_to)])
            _run([sys.executable, "-c", _CHILD, script, source, result, shapes], script)
            converted: Array = np.load(result, allow_pickle=False)
        if converted.dtype != array.dtype:
            raise NotComparable("%s returned elements of %s, expected %s" % (script, converted.dtype, array.dtype))
        if shape_to is not None:
            if converted.size != int(np.prod(shape_to, dtype=np.int64)):
                raise NotComparable("%s returned %d elements, expected the shape %s" % (script, converted.size, list(shape_to)))
            converted = converted.reshape(tuple(shape_to))
        return converted


def _pair(name: str) -> Optional[Tuple[str, str]]:
    stem, suffix = os.path.splitext(name)
    if suffix != ".py" or not stem.startswith("convert_") or "_to_" not in stem:
        return None
    words: List[str] = stem[len("convert_") :].split("_to_")
    codes = [format_code(word) for word in words]
    if len(codes) != 2 or codes[0] is None or codes[1] is None:
        return None
    return format_name(codes[0]), format_name(codes[1])


def _run(command: List[str], script: str) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotComparable("%s did not end within %d s" % (script, TIMEOUT_S)) from None
    if done.returncode != 0:
        lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
        raise NotComparable("%s failed: %s" % (script, lines[-1][:_TOLD_LETTERS] if lines else "exit code %d" % done.returncode))
