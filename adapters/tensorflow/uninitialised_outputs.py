"""Outputs that TensorFlow's CPU kernels allocate and never write, or write in part.

Their memory holds what an earlier op left there. Found by running ops of TensorFlow 1.15 with two
fillings of fresh memory (glibc's MALLOC_PERTURB_): 222 of its op types made of random constants,
and 120 calls made by hand; ``tests/adapters/tensorflow/test_uninitialised_outputs.py`` does so with
those named here.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Tuple

import numpy as np

Read = Callable[[int], Optional[np.ndarray]]

FUSED_BATCH_NORMS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
_STATISTICS = frozenset([1, 2, 3, 4])
# Op type: the attribute that leaves outputs unwritten where it is false, and these.
_UNLESS: Dict[str, Tuple[str, FrozenSet[int]]] = {
    **{name: ("is_training", _STATISTICS) for name in FUSED_BATCH_NORMS},
    "Empty": ("init", frozenset([0])),
    "SelfAdjointEigV2": ("compute_v", frozenset([1])),
    "Svd": ("compute_uv", frozenset([1, 2])),
}
ATTRIBUTES = frozenset(attribute for attribute, _ in _UNLESS.values())
_STITCHES = ("DynamicStitch", "ParallelDynamicStitch")
# All but the cell's states (1) and outputs (6), which are zeros behind the last step.
_BLOCK_LSTM = frozenset([0, 2, 3, 4, 5])


def attributes_of(op: Any) -> Dict[str, bool]:
    """Return those attributes of an op of a graph that :func:`never_written` asks for."""
    definition = op.node_def.attr
    return {name: bool(definition[name].b) for name in ATTRIBUTES if name in definition}


def never_written(op_type: str, slot: int, attributes: Mapping[str, Any]) -> Optional[str]:
    """Return why an output is never written, by the op's attributes (of those that are not known
    nothing is said), or None.
    """
    if op_type == "FusedBatchNormV3" and slot == 5:
        return (
            "FusedBatchNormV3's output 5 is uninitialised memory on a CPU: it differs in every run"
        )
    if op_type == "FakeParam":
        return "FakeParam stands for a value that nobody reads: its output is uninitialised memory"
    attribute, slots = _UNLESS.get(op_type, ("", frozenset()))
    if slot not in slots or attributes.get(attribute, True):
        return None
    return "%s's output %d is never written with %s=False: it is uninitialised memory" % (
        op_type,
        slot,
        attribute,
    )


def in_a_listing(op_type: str, slot: int, with_gradient: bool) -> Optional[str]:
    """Return why an output is taken for unwritten where only a run's op types are known, or None.

    Parameters
    ----------
    with_gradient
        Whether the run computes the gradient of a FusedBatchNorm.
    """
    if op_type in FUSED_BATCH_NORMS and slot in _STATISTICS and not with_gradient:
        text = (
            "no gradient of a %s is listed, so it runs with is_training=False: its output %d is "
            "uninitialised memory then"
        )
        return text % (op_type, slot)
    return never_written(op_type, slot, {})


def partly_written(
    op_type: str, slot: int, shape: Tuple[int, ...], n_inputs: int, read: Read
) -> Optional[str]:
    """Return why a part of an output is never written, by the values that its op read, or None.

    Parameters
    ----------
    shape
        Of the output.
    n_inputs
        Of the op.
    read
        Returns the values of one input by its number; None where they are not known.
    """
    if not shape:
        return None
    if op_type in ("BlockLSTM", "BlockLSTMV2") and slot in _BLOCK_LSTM:
        steps = read(0)
        if steps is not None and steps.size == 1 and int(steps.reshape(-1)[0]) < shape[0]:
            text = (
                "%s's output %d is written for %d of %d time steps (seq_len_max): the others are "
                "uninitialised memory"
            )
            return text % (op_type, slot, int(steps.reshape(-1)[0]), shape[0])
    if op_type in _STITCHES and slot == 0:
        indices: List[int] = []
        for number in range(n_inputs // 2):
            values = read(number)
            if values is None:
                return None
            indices += values.reshape(-1).tolist()
        unwritten_rows = shape[0] - len(set(indices))
        if unwritten_rows > 0:
            return "%s's indices leave out %d of its %d rows, which are uninitialised memory" % (
                op_type,
                unwritten_rows,
                shape[0],
            )
    return None
