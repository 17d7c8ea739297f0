"""Layout names and their codes: the OutputFormat enumeration of the vendor's dump_data message."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

_NAMES = (
    "NCHW NHWC ND NC1HWC0 FRACTAL_Z NC1C0HWPAD NHWC1C0 FSR_NCHW FRACTAL_DECONV C1HWNC0 "
    "FRACTAL_DECONV_TRANSPOSE "
    "FRACTAL_DECONV_SP_STRIDE_TRANS NC1HWC0_C04 FRACTAL_Z_C04 CHWN DECONV_SP_STRIDE8_TRANS "
    "HWCN NC1KHKWHWC0 BN_WEIGHT "
    "FILTER_HWCK LOOKUP_LOOKUPS LOOKUP_KEYS LOOKUP_VALUE LOOKUP_OUTPUT LOOKUP_HITS C1HWNCoC0 "
    "MD NDHWC FRACTAL_ZZ FRACTAL_NZ "
    "NCDHW DHWCN NDC1HWC0 FRACTAL_Z_3D CN NC DHWNC FRACTAL_Z_3D_TRANSPOSE FRACTAL_ZN_LSTM "
    "FRACTAL_Z_G RESERVED ALL NULL "
    "ND_RNN_BIAS FRACTAL_ZN_RNN YUV YUV_A NCL FRACTAL_Z_WINO C1HWC0"
).split()

FORMATS: Dict[int, str] = dict(enumerate(_NAMES))
FORMATS[255] = "MAX"
_CODES: Dict[str, int] = {name: code for code, name in FORMATS.items()}
_CODES_ANY_CASE: Dict[str, int] = {name.upper(): code for name, code in _CODES.items()}


def format_name(code: int) -> str:
    """Return the layout's name; never raises, an unknown code gives ``unknown(77)``.

    Some writers store GE's whole format word: the layout in bits 0 to 7, the sub format in bits 8
    to 23, C0 above. Only the layout is used here.
    """
    low = code & 0xFF
    return FORMATS.get(low) or "unknown(%d)" % code


def split_format(code: int, sub_format: int = 0) -> Tuple[str, int]:
    """Return the layout's name and the sub format (the groups of a FRACTAL_Z filter).

    The sub format is the container's field if set, else bits 8 to 23 of the format word.
    """
    return format_name(code), sub_format or (code >> 8) & 0xFFFF


def format_code(name: str) -> Optional[int]:
    """Return the code of a layout name (any case), or None when there is no such layout."""
    return _CODES_ANY_CASE.get(name.upper())
