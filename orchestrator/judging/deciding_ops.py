"""Ops whose output is a decision: a difference of their inputs by rounding alone may turn into
another answer.
"""

from __future__ import annotations

from typing import Optional

_DECIDING = frozenset(
    """
    ArgMax ArgMaxV2 ArgMaxD ArgMaxWithK ArgMaxWithValue ArgMin ArgMinV2 ArgMinD ArgMinWithValue
    TopK TopKV2 TopKD TopKPQDistance InTopK InTopKD Sort SortV2 Argsort Unique UniqueV2
    UniqueWithCounts Multinomial NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3
    NonMaxSuppressionV4 NonMaxSuppressionV5 NonMaxSuppressionV6 NMSWithMask
    BatchMultiClassNonMaxSuppression RotatedNMS DecodeBboxV2 ProposalD Proposal RpnProposals
    YoloV3DetectionOutput SSDDetectionOutput FSRDetectionOutput Equal NotEqual Greater
    GreaterEqual Less LessEqual ApproximateEqual IsClose Round Rint Floor Ceil Trunc Sign FloorDiv
    FloorMod Mod TruncateDiv TruncateMod Bucketize SearchSorted OneHot LogicalAnd LogicalOr
    LogicalNot LogicalXor Where NonZero AscendQuant Quantize QuantizeV2
    """.lower().split()
)
_ROUNDING = frozenset("round rint floor ceil trunc floordiv truncatediv sign".split())
_CASTS = frozenset(("cast", "castd", "todtype"))
_WHOLE = ("int", "uint", "bool")


def rounds_to_whole(op_type: str) -> bool:
    """Tell whether all that an op puts out is whole numbers, as floats too: one that differs was
    rounded to another.
    """
    return op_type.lower() in _ROUNDING


def decides(op_type: str, output_dtype: Optional[str] = None) -> bool:
    """Tell whether an op decides: ArgMax, TopK, NMS, comparisons, rounding, and casts to integers
    or bool.

    Parameters
    ----------
    op_type
        In any case.
    output_dtype
        Name as in the DataType column; only for casts.
    """
    name = op_type.lower()
    return name in _DECIDING or (
        name in _CASTS and output_dtype is not None and output_dtype.startswith(_WHOLE)
    )
