"""Number and types of the outputs of TensorFlow ops, from a table of TensorFlow 1.15 and a graph's
own functions.

``tf_ops.json`` is made by ``scripts/regenerate_tf_ops``: by op name, a word for each output: a
number is a DataType (100 more: reference), a name is the attribute that holds it (``T=1``: 1 where
it is left out), ``N*T`` as many as the attribute ``N`` says, ``@Tout`` a list of types; ``!`` is a
stateful op.
"""

from __future__ import annotations

import json
import pkgutil
from functools import lru_cache
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..base.protowire import Fields, each, message, text, unsigned

DTYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string",
    8: "complex64", 9: "int64", 10: "bool",
    11: "qint8", 12: "quint8", 13: "qint32", 14: "bfloat16", 15: "qint16", 16: "quint16",
    17: "uint16", 18: "complex128", 19: "float16",
    20: "resource", 21: "variant", 22: "uint32", 23: "uint64",
}  # fmt: skip
"""TensorFlow's DataType numbers and names (types.proto)."""

_REFERENCE = 100

_ARG_DEF = Fields(type=unsigned(3), type_attr=text(4), number_attr=text(5), list_attr=text(6))
OP_DEF = Fields(name=text(1), outputs=each(message(3, _ARG_DEF)), is_stateful=unsigned(17))
"""OpDef (op_def.proto)."""


class OpOutputs(NamedTuple):
    """The outputs of an op: a word for each output argument, and whether it is stateful."""

    words: Tuple[str, ...]
    stateful: bool


@lru_cache(maxsize=1)
def _table() -> Dict[str, str]:
    data = pkgutil.get_data(__name__, "tf_ops.json")
    assert data is not None
    table: Dict[str, str] = json.loads(data.decode("ascii"))
    return table


def op_outputs(op: str) -> Optional[OpOutputs]:
    """Return the outputs of an op; None for one that TensorFlow 1.15 does not have."""
    text = _table().get(op)
    if text is None:
        return None
    words = text.split()
    return OpOutputs(tuple(word for word in words if word != "!"), "!" in words)


def output_types(
    outputs: OpOutputs,
    type_of: Callable[[str], Optional[int]],
    types_of: Callable[[str], Optional[List[int]]],
    count_of: Callable[[str], Optional[int]],
) -> List[Optional[int]]:
    """Return the DataType of each output of a node, None where an attribute that it depends on is
    missing.

    Parameters
    ----------
    type_of, types_of, count_of
        The node's attributes: a type, a list of types, an integer.
    """
    types: List[Optional[int]] = []
    for word in outputs.words:
        if word.startswith("@"):
            types += types_of(word[1:]) or []
            continue
        repeat, _, kind = word.rpartition("*")
        name, _, default = kind.partition("=")
        if name.isdigit():
            number: Optional[int] = int(name)
        else:
            number = type_of(name)
            if number is None and default:
                number = int(default)
        types += [number] * ((count_of(repeat) or 0) if repeat else 1)
    return [None if number is None else number % _REFERENCE for number in types]


def outputs_of_signature(signature: Any) -> Tuple[str, OpOutputs]:
    """Return name and outputs of a function whose OpDef was read by :data:`OP_DEF`."""
    words = []
    for output in signature.outputs:
        if output.list_attr:
            words.append("@" + output.list_attr)
        else:
            count = output.number_attr + "*" if output.number_attr else ""
            words.append(count + (output.type_attr or str(output.type)))
    return signature.name, OpOutputs(tuple(words), bool(signature.is_stateful))
