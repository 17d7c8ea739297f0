"""The output types of ONNX ops, from a table made from the specification's schemas.

``onnx_ops.json`` is made by ``scripts/regenerate_onnx_ops``: by op type (of the domain ``ai.onnx``)
a word for each output: a number is the input whose type it has, ``@to`` the attribute that holds it
(``@body``: the output of the op's own graph), other words are types, ``?`` is none; ``|`` stands
before what counts where that is left out, ``*`` behind the word of all further outputs.
"""

from __future__ import annotations

import json
import pkgutil
from functools import lru_cache
from typing import Callable, Dict, List

BODY = "body"
OTHERS = {
    **dict.fromkeys(
        ("SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceMap"),
        "sequence",
    ),
    **dict.fromkeys(("SplitToSequence", "ZipMap"), "sequence"),
    "Optional": "optional",
}
"""Ops whose outputs are not tensors, and the kind of output."""


@lru_cache(maxsize=1)
def _table() -> Dict[str, str]:
    data = pkgutil.get_data(__name__, "onnx_ops.json")
    assert data is not None
    table: Dict[str, str] = json.loads(data.decode("ascii"))
    return table


def output_types(
    op_type: str,
    count: int,
    of_input: Callable[[int], str],
    of_attribute: Callable[[str, int], str],
) -> List[str]:
    """Return the types of a node's outputs by their names in :data:`~.onnx_types.TYPES`; empty if
    unknown.

    Parameters
    ----------
    op_type, count
        Of a node of the domain ``ai.onnx``; how many outputs it has.
    of_input
        The type of an input by its number.
    of_attribute
        The type in an attribute, by its name; the number of the output distinguishes those of
        :data:`BODY` apart.
    """
    words = _table().get(op_type, "?*").split()
    declared_types = []
    for number in range(count):
        word = (
            words[number]
            if number < len(words)
            else words[-1]
            if words and words[-1].endswith("*")
            else "?"
        )
        types = (
            _type(part, number, of_input, of_attribute) for part in word.rstrip("*").split("|")
        )
        declared_types.append(next(filter(None, types), ""))
    return declared_types


def _type(
    word: str, output: int, of_input: Callable[[int], str], of_attribute: Callable[[str, int], str]
) -> str:
    if word == "?":
        return ""
    if word.isdigit():
        return of_input(int(word))
    return of_attribute(word[1:], output) if word.startswith("@") else word
