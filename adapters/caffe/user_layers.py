"""Layer types that the user's own Python files compute: ``--layer TYPE=FILE.py``.

The file has a function named as the type, or ``forward``: ``f(bottoms, blobs, parameters, name)``
with lists of float32 arrays, the layer's own parameters as a dict, and the layer's name; it returns
an array or a list of arrays, one for each top. It runs in a process of its own.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterable, List, Mapping, Sequence

import numpy as np

from ...base.errors import UsageError, require_file
from ...base.naming import printable
from ...base.safe_reading import open_input
from ...base.user_code import Answer, call_user, run_user
from ...netfiles.caffe_net import Net

Array = Any


class UserLayers:
    """Files by layer type.

    Parameters
    ----------
    files
        Absolute paths by layer type.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = dict(files)

    @property
    def types(self) -> List[str]:
        """The layer types."""
        return list(self._files)

    def call(
        self,
        kind: str,
        bottoms: Sequence[Array],
        blobs: Sequence[Array],
        parameters: Dict[str, Any],
        name: str,
    ) -> List[Array]:
        """Return the tops of a layer; raises NotComparable where the user's code fails."""
        arrays: List[Array] = call_user(
            self._files[kind],
            _forward,
            kind,
            list(bottoms),
            list(blobs),
            parameters,
            name,
            shown=True,
        )
        return arrays


def parse_layers(specs: Sequence[str]) -> Dict[str, str]:
    """Return the files by layer type of ``TYPE=FILE.py``.

    Raises
    ------
    UsageError
        One is not of this form, or names a type twice.
    MissingPath
        There is no such file.
    """
    files: Dict[str, str] = {}
    for spec in specs:
        kind, equals, path = spec.partition("=")
        if not equals or not kind or not path.endswith(".py"):
            raise UsageError(
                "`layer` %s is not TYPE=FILE.py" % printable(spec),
                hint="for example `layer=Proposal=proposal.py`",
            )
        if kind in files:
            raise UsageError("`layer` names the type %s twice" % printable(kind))
        require_file(path, "layer %s" % kind)
        files[kind] = os.path.abspath(path)
    return files


def refuse_absent(net: Net, types: Iterable[str]) -> None:
    """Refuse layer types that a net has no layer of.

    Raises
    ------
    UsageError
        It names them, and the types that the net has.
    """
    there = sorted({layer.type for layer in net.layers})
    absent = [kind for kind in types if kind not in there]
    if absent:
        hint = "the types are written as in the prototxt; this one's are %s" % ", ".join(
            printable(kind) for kind in there
        )
        raise UsageError(
            "`layer`: the net has no layer of type %s"
            % ", ".join(printable(kind) for kind in absent),
            hint=hint,
        )


def _forward(
    script: str,
    kind: str,
    bottoms: List[Array],
    blobs: List[Array],
    parameters: Dict[str, Any],
    name: str,
) -> Answer:
    """Call the user's function, in the process for it."""
    function = (
        kind
        if re.search(r"^def\s+%s\s*\(" % re.escape(kind), _text(script), re.MULTILINE)
        else "forward"
    )
    return run_user(script, function, bottoms, blobs, parameters, name, taken=_arrays)


def _text(script: str) -> str:
    with open_input(script) as stream:
        return stream.read().decode("utf-8", "replace")


def _arrays(returned: Any) -> List[Array]:
    arrays = [
        np.asarray(array)
        for array in (returned if isinstance(returned, (list, tuple)) else [returned])
    ]
    for array in arrays:
        if array.dtype.kind in "OcmM":
            what = "complex numbers" if array.dtype.kind == "c" else type(returned).__name__
            raise TypeError("it returned %s, not an array of real numbers" % what)
    return [array.astype(np.float32) for array in arrays]
