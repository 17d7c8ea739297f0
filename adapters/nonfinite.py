"""NaN and infinite values of golden data: counted when written, and the first op that produced
some.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..base.naming import printable
from ..base.wording import plural

# Their names in the manifest.
NOT_FINITE = "not_finite"
_BLOCK = 1 << 20
_EXPONENT = np.uint16(0x7C00)


def count_not_finite(array: np.ndarray) -> Tuple[int, int]:
    """Return how many elements are NaN, and how many infinite.

    Parameters
    ----------
    array
        Of any dtype and shape, in C order; integers have neither.
    """
    if array.dtype.kind not in "fc" or not array.size:
        return 0, 0
    flat = array.reshape(-1)
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    nan = infinite = 0
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        if _all_finite(block):
            continue
        nan += int(np.count_nonzero(np.isnan(block)))
        infinite += int(np.count_nonzero(np.isinf(block)))
    return nan, infinite


def _all_finite(block: np.ndarray) -> bool:
    """Tell whether all values are certainly finite; False may be wrong where the sum of finite
    values overflows.
    """
    if block.dtype == np.float16:
        # numpy adds float16 slowly.
        return not bool(np.any((block.view(np.uint16) & _EXPONENT) == _EXPONENT))
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.add.reduce(block)))


def not_finite_of(
    tensors: Sequence[Mapping[str, Any]], is_own: Callable[[Mapping[str, Any]], bool]
) -> Optional[Dict[str, Any]]:
    """Return the manifest's ``not_finite`` over all tensors; None where every value is finite.

    Parameters
    ----------
    tensors
        The manifest's entries, in the order in which the ops ran.
    is_own
        Tells whether an op made what is not finite itself: nothing that it reads holds such values.
    """
    numbers = [number for number, entry in enumerate(tensors) if NOT_FINITE in entry]
    entries = [tensors[number] for number in numbers]
    if not entries:
        return None
    found = {
        "tensors": len(entries),
        "first": next((_report_entry(entry) for entry in entries if is_own(entry)), None),
    }
    if found["first"] is not None and numbers[-1] < len(tensors) - 1:
        # What a mask or another branch leaves out spreads no further.
        found["ends_at"] = _report_entry(entries[-1])["tensor"]
    return found


def _report_entry(entry: Mapping[str, Any]) -> Dict[str, Any]:
    elements = int(np.prod(entry["shape"], dtype=np.int64))
    tensor = "%s:%d" % (entry["original_name"], entry["output_index"])
    return dict(
        entry[NOT_FINITE], tensor=tensor, type=str(entry.get("type", "")), elements=elements
    )


def not_finite_warnings(entries: Optional[Mapping[str, Any]]) -> List[str]:
    """Return the warning about :func:`not_finite_of`; none where only constants contain such
    values.
    """
    first = None if entries is None else entries["first"]
    if entries is None or first is None:
        return []
    parts = ["%d NaN" % first["nan"]] if first["nan"] else []
    parts += ["%d infinite" % first["inf"]] if first["inf"] else []
    what = (
        "%s (%s)" % (printable(first["tensor"]), first["type"])
        if first["type"]
        else printable(first["tensor"])
    )
    if first["type"] == "Softmax" and first["nan"] < first["elements"]:
        # 0 divided by 0: each runtime makes something else of it.
        advice = (
            "rows that a mask of minus infinity covers completely have no Softmax; only there, and "
            "in what follows of it, nothing tells whether a device is right: give a mask without "
            "such rows"
        )
    elif entries.get("ends_at"):
        advice = (
            "no op behind %s holds such values: it is an output of the network, or a mask or a "
            "branch leaves them out; of these values alone nothing tells whether a device is right"
            % printable(entries["ends_at"])
        )
    else:
        advice = (
            "from there on nothing tells whether a device is right: check the inputs, and whether "
            "the model's types hold its values"
        )
    text = "the golden run itself comes to NaN or infinite values (%s), first at %s: %s of %s; %s"
    return [
        text
        % (
            plural(entries["tensors"], "tensor"),
            what,
            " and ".join(parts),
            plural(first["elements"], "value"),
            advice,
        )
    ]
