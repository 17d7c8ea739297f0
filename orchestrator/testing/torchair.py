"""What TorchAir leaves of one compiled graph: GE's dump tree, the original graph as text, and an FX
dump in each form of its folders.

Sources as in :mod:`goldwatch.run.golden_files` and :mod:`goldwatch.model.torchair_graph`.
"""

from __future__ import annotations

import os
from dataclasses import field
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..base.fast_dataclasses import dataclass
from ..base.naming import fx_file_name
from .device_dump import write_files
from .device_model import FIRST_TIMESTAMP_US, DeviceModel, graph_text

FX_FORMS = ("newest", "data_dump", "gm")


@dataclass
class TorchAirGraph:
    """One graph as TorchAir compiled it, and as GE ran it.

    Parameters
    ----------
    original
        The graph that TorchAir gave to GE; its ``name`` is the graph's, such as ``graph_1``.
    compiled
        What ran, with fused ops and casts that were put in; None: the original.
    nodes
        For the name of an original op what its outputs are: the FX node and what that calls,
        ``("add_1", "aten.add.Tensor")``.
    values
        For each node its inputs and outputs in FX.
    """

    original: DeviceModel
    compiled: Optional[DeviceModel] = None
    nodes: Dict[str, Tuple[str, str]] = field(default_factory=dict)
    values: Dict[str, Tuple[Sequence[Any], Sequence[Any]]] = field(default_factory=dict)

    def write_ge(
        self,
        root: str,
        token: int = 0,
        rank: Optional[Tuple[int, int]] = None,
        time: str = "20260102030405",
        device: int = 0,
    ) -> List[str]:
        """Write the dumps of one call below ``root``, in the folder of ``rank`` (world size,
        number) where that is given.
        """
        model = self.compiled or self.original
        below = root if rank is None else os.path.join(root, "worldsize%d_global_rank%d" % rank)
        first_us = FIRST_TIMESTAMP_US + 10**9 * token
        return write_files(
            below, model.dumps(time, device, step=token, first_timestamp_us=first_us)
        )

    def write_graph(self, root: str, form: str = "txt", rank: int = 0) -> str:
        """Write the original graph as TorchAir does; ``form`` is ``txt`` or ``pbtxt``. It makes
        reshape of each view before.
        """
        ops = self.original.document()["graph"][0]["op"]
        for op in ops:
            op.pop("id", None)
            for kind in ("input_desc", "output_desc"):
                for number, desc in enumerate(op.get(kind, ())):
                    desc["name"] = ("x" if kind == "input_desc" else "y") + str(number or "")
                    desc["attr"] = []
                    if kind == "output_desc" and op["name"] in self.nodes:
                        node, target = self.nodes[op["name"]]
                        fx = "%s-%s.OUTPUT.%d" % (
                            node,
                            target.replace("aten.view.", "aten.reshape."),
                            number,
                        )
                        desc["attr"] = [{"key": "_fx_tensor_name", "value": {"s": fx}}]
        text = (
            graph_text({"name": self.original.name, "op": ops})
            if form == "txt"
            else graph_text({"node": [_node(op) for op in ops]})
        )
        os.makedirs(root, exist_ok=True)
        path = os.path.join(
            root,
            "dynamo_original_%s_rank_%d_pid_1_ts_20260102030405000000.%s"
            % (self.original.name, rank, form),
        )
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        return path

    def write_fx(
        self, root: str, token: int = 0, form: str = "newest", rank: Tuple[int, int] = (1, 0)
    ) -> str:
        """Write what PyTorch computed in one call, as TorchAir's FX dump, and return the folder.

        Parameters
        ----------
        form
            One of :data:`FX_FORMS`: ``worldsize{N}_global_rank{R}/{graph}/{token}``,
            ``data_dump/{token + 1}/gm_{time}_dump``, or ``gm_{time}_dump/{token + 1}``.
        """
        timed = "gm_20260102030405%06d_dump" % int(self.original.name.rpartition("_")[2])
        below = {
            "newest": ("worldsize%d_global_rank%d" % rank, self.original.name, str(token)),
            "data_dump": ("data_dump", str(token + 1), timed),
            "gm": (timed, str(token + 1)),
        }[form]
        folder = os.path.join(root, *below)
        os.makedirs(folder, exist_ok=True)
        stamp = "20260102030405%06d" % token
        for node, target in self.nodes.values():
            inputs, outputs = self.values[node]
            for kind, values in (("INPUT", inputs), ("OUTPUT", outputs)):
                for number, value in enumerate(values):
                    np.save(
                        os.path.join(folder, fx_file_name(node, target, kind, (number,), stamp)),
                        np.asarray(value),
                    )
        return folder


def _node(op: Dict[str, Any]) -> Dict[str, Any]:
    """Return an op in TensorBoard's form: descs and attributes as text."""
    attrs = [(attr["key"], graph_text(attr["value"])) for attr in op.get("attr", ())]
    for kind, mark in (("input_desc", "[i]"), ("output_desc", "[o]")):
        attrs += [(mark + desc["name"], graph_text(desc)) for desc in op.get(kind, ())]
    node: Dict[str, Any] = {"name": op["name"], "op": op["type"], "input": op.get("input", [])}
    node["attr"] = [{"key": key, "value": {"s": text}} for key, text in attrs]
    return node
