"""The finest and the coarsest arithmetic that a device may use inside of an operator, by the
element type of its tensors.
"""

from __future__ import annotations

from typing import Mapping

from ..operators import Arithmetic

TIGHT: Mapping[str, Arithmetic] = {
    "float16": Arithmetic(states=2.0**-11),
    "bfloat16": Arithmetic(states=2.0**-8),
}
"""Steps and sums in float32; the state of a recurrent layer has the type of its tensors. Other
types: ``Arithmetic()``.
"""

LOOSE: Mapping[str, Arithmetic] = {
    "float16": Arithmetic(2.0**-11, 2.0**-11, 0.0, 0.0),
    "bfloat16": Arithmetic(2.0**-8, 2.0**-11, 0.0, 0.0),
    "float32": Arithmetic(2.0**-24, 2.0**-24, 2.0**-11),
}
"""float16 and bfloat16: every step rounds to the type, sums to float16. float32: factors of
products are cut to float16's fraction.
"""
