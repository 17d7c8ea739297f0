"""One op of a model: names, connections, tensors.

Source of the attributes: GE's ModelDef as ``atc --mode=1`` and ``atc --mode=5`` print it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Optional, Sequence, Tuple

from ..base.element_types import BY_GE_NAME, UNDEFINED
from ..base.fast_dataclasses import dataclass


@dataclass(frozen=True)
class TensorDesc:
    """One entry of ``input_desc`` or ``output_desc``.

    Attributes
    ----------
    dtype, layout
        As written, such as ``DT_FLOAT16`` and ``NC1HWC0``; empty when absent.
    shape
        Device shape; ``()`` for a scalar or when absent; a negative dim is one that is only known
        at run time.
    origin_name
        ``_datadump_origin_name``: the original op whose output this is. None when absent, ``""``
        when present and empty.
    origin_index
        ``_datadump_origin_output_index``; None when absent.
    origin_format
        ``_datadump_origin_format``, else ``origin_format``; None when neither is there.
    origin_shape
        ``origin_shape``; None when absent.
    """

    dtype: str = ""
    layout: str = ""
    shape: Tuple[int, ...] = ()
    origin_name: Optional[str] = None
    origin_index: Optional[int] = None
    origin_format: Optional[str] = None
    origin_shape: Optional[Tuple[int, ...]] = None

    @property
    def size_bytes(self) -> Optional[int]:
        """Size of the tensor on the device in bytes; None when its dtype is unknown or a dim is
        only known at run time.
        """
        element = BY_GE_NAME.get(self.dtype)
        if element is None or not element.bits or element.code == UNDEFINED:
            return None
        count = 1
        for dim in self.shape:
            if dim < 0:
                return None
            count *= dim
        return (count * element.bits + 7) // 8


QUANT_TYPE = "AscendQuant"
"""The op that turns floats into integers, q = round(x · scale + offset)."""


@dataclass(frozen=True)
class OpNode:
    """One op of the model.

    Attributes
    ----------
    name, type
        As in the file; the name may be empty when the file has none.
    id
        The op's number in its graph's execution order; 0 when absent.
    graph_index
        The number of the op's graph in the file.
    position
        The op's number in the file, counted over all graphs.
    inputs
        Per data input ``(producer name, output index)``, or None where an optional input is not
        connected. Control edges are not in it.
    controls
        The names of the ops that must run before (edges written ``name:-1``).
    input_descs, output_descs
        In the order of the file.
    original_names
        ``_datadump_original_op_names`` without repeats, in order: None when the attribute is
        absent, ``()`` when it is empty (inserted by the compiler).
    file_originals
        The original names in the file, if a second file replaced them
        (:mod:`goldwatch.model.names_by_second_model`); else empty.
    is_multiop
        ``_datadump_is_multiop``: one of several ops made from the same originals.
    l1_group
        ``_L1_fusion_sub_graph_no``; None when absent or empty.
    no_task
        ``_no_task``: the op does nothing on the device; None if the file does not say.
    kernel_library
        ``_ge_attr_op_kernel_lib_name``: the engine that runs the op; empty when absent.
    batch_label
        ``_batch_label``: the gear (of a dynamic batch, image size or dims) that the op is a copy
        for, such as ``Batch_0``; or None.
    subgraphs
        ``subgraph_name``: the names of the graphs that the op runs, such as an If's branches, in
        order.
    no_output
        The file lists no output of it and no op reads one, while other ops have outputs.
    inserted
        The compiler inserted it into an original graph, whose ops do not mention it.
    quantisation
        (scale, offset) of an :data:`QUANT_TYPE` that has both; else None.
    """

    name: str
    type: str
    id: int
    graph_index: int
    position: int
    inputs: Tuple[Optional[Tuple[str, int]], ...] = ()
    controls: Tuple[str, ...] = ()
    input_descs: Tuple[TensorDesc, ...] = ()
    output_descs: Tuple[TensorDesc, ...] = ()
    original_names: Optional[Tuple[str, ...]] = None
    file_originals: Tuple[str, ...] = ()
    is_multiop: bool = False
    l1_group: Optional[str] = None
    no_task: Optional[bool] = None
    kernel_library: str = ""
    batch_label: Optional[str] = None
    subgraphs: Tuple[str, ...] = ()
    no_output: bool = False
    inserted: bool = False
    quantisation: Optional[Tuple[float, float]] = None

    @property
    def originals(self) -> Tuple[str, ...]:
        """The original ops it was made from: the attribute without empty names, or the op's own
        name if it is absent.
        """
        if self.original_names is None:
            return (self.name,)
        names = self.original_names
        return names if all(names) else tuple(filter(None, names))

    def place_in_dump(self, number: int, n_inputs: int) -> Optional[int]:
        """Return the index of input ``number`` in a dump of ``n_inputs`` inputs, which holds all or
        the connected ones; None where it is not there or which is which cannot be told.
        """
        if n_inputs == len(self.inputs):
            return number
        connected = [index for index, source in enumerate(self.inputs) if source is not None]
        if n_inputs != len(connected) or number not in connected:
            return None
        return connected.index(number)


def execution_key(op: OpNode) -> Tuple[int, int]:
    """Return the sort key of the execution order: (graph number, op id)."""
    return op.graph_index, op.id


def desc_at(descs: Sequence[TensorDesc], index: int) -> TensorDesc:
    """Return the desc of an input or output; an empty one if the model lists none of this
    number."""
    return descs[index] if index < len(descs) else TensorDesc()


# For each gear of a dynamic batch, image size or dims the compiler copies the network, and one copy
# runs. Source: GE's public sources; a copy is a graph named ``Batch_N``, its ops have the label
# ``Batch_N`` and names that end in ``_ascend_mbatch_batch_N``.
_NAME = re.compile(r"(?:.*_)?(Batch_[0-9]+)\Z", re.DOTALL)
_MARK = "_ascend_mbatch_batch_"


@lru_cache(maxsize=256)
def gear_named(text: str) -> Optional[str]:
    """Return the gear in a label or a graph's name, such as ``Batch_0``, or None."""
    match = _NAME.match(text)
    return match.group(1) if match is not None else None


def gear_of(op: OpNode, graph_name: str) -> Optional[str]:
    """Return the gear of an op by its label, its graph's name or its own name, or None."""
    gear = gear_named(op.batch_label or "") or gear_named(graph_name)
    if gear is not None:
        return gear
    number = op.name.rpartition(_MARK)[2] if _MARK in op.name else ""
    return "Batch_%s" % number if number.isdigit() else None


def without_gear(name: str) -> str:
    """Return an op's name without the suffix of its gear."""
    head, mark, number = name.rpartition(_MARK)
    return head if mark and number.isdigit() else name
