"""How far a row is from golden data, as numbers of which more is worse, and from where on a growth
is more than noise.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Mapping, Optional, Tuple

from ..tensors.type_precision import rounding_of

COSINE = "CosineSimilarity"
COSINE_DISTANCE = "1 - CosineSimilarity"

_FIRST = ("RelativeEuclideanDistance", "WorstSliceDistance", "DifferentElements")
_ELSE = ("RootMeanSquareError", "MeanAbsoluteError", "MaxAbsoluteError")
_LEAST = 1e-5
_LEAST_COSINE = 1e-8


def distances(metrics: Mapping[str, Any]) -> Dict[str, float]:
    """Return what of a row's metrics means the same at every magnitude: 1 - CosineSimilarity, and
    three distances as they are.

    Where none of them was measured, the absolute errors. NaN stays NaN.
    """
    by_name = {}
    cosine = _number(metrics.get(COSINE))
    if cosine is not None:
        by_name[COSINE_DISTANCE] = 1.0 - cosine
    for names in (_FIRST, _ELSE):
        if names is _ELSE and by_name:
            break
        for name in names:
            value = _number(metrics.get(name))
            if value is not None:
                by_name[name] = value
    return by_name


def _number(value: Any) -> Optional[float]:
    if value is None or isinstance(value, dict):
        return None
    return float(value)


def noise(name: str, dtype: Optional[str]) -> float:
    """Return by how much a distance must at least have grown: half a unit in the last place of the
    element type, and never less than 1e-5.

    Of 1 - CosineSimilarity, which is half the square of a relative distance, half its square, and
    never less than 1e-8. Of DifferentElements nothing: it counts.
    """
    if name == "DifferentElements":
        return 0.0
    least = max(_LEAST, rounding_of(dtype or "").half_unit)
    return max(_LEAST_COSINE, least * least / 2) if name == COSINE_DISTANCE else least


def grown(name: str, before: float, after: float, dtype: Optional[str], tolerance: float) -> bool:
    """Tell whether a distance grew by more than the tolerance (0.5 is 50 %) and by more than noise;
    a number that became NaN did.
    """
    if math.isnan(before) or math.isnan(after):
        return math.isnan(after) and not math.isnan(before)
    if math.isinf(before):
        return False
    return after > max(0.0, before) * (1.0 + tolerance) and after - before > noise(name, dtype)


def most_grown(
    before: Mapping[str, float], after: Mapping[str, float], dtype: Optional[str], tolerance: float
) -> Optional[Tuple[str, float]]:
    """Return the distance that grew most by its own measure, and by what factor; None where none
    did.

    Of several that became NaN or grew from 0, the one that was the largest.
    """
    growths = [
        (name, _factor(before[name], after[name]))
        for name in before
        if name in after and grown(name, before[name], after[name], dtype, tolerance)
    ]
    return max(growths, key=lambda entry: (entry[1], before[entry[0]])) if growths else None


def _factor(before: float, after: float) -> float:
    return after / before if before > 0 and not math.isnan(after) else math.inf
