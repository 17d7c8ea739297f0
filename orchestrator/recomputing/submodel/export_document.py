"""The description of an export: submodel.json, and the lines of its log."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from ...base.naming import printable
from ...base.safe_reading import sha256_of_file
from ...base.wording import plural
from .export_plan import Plan
from .gather_recorded_files import OP
from .incoming_values import Border
from .input_file_plan import InputFile

FILE = "submodel.json"


# One function: the literal has the order of the file's keys.
def document_of(plan: Plan, next_steps: Dict[str, Any]) -> Dict[str, Any]:
    """Return the document of submodel.json (``schemas/submodel.schema.json``); files are relative
    to the export's folder.

    Parameters
    ----------
    next_steps
        The next commands by purpose.
    """
    original, cut = plan.original, plan.cut
    assert original.path is not None
    document: Dict[str, Any] = {
        "model": {
            "kind": original.kind,
            "file": os.path.abspath(original.path),
            "sha256": sha256_of_file(original.path),
            "name": original.name,
            "om_name": None if plan.om is None else plan.om.name,
        },
        "start": plan.starts,
        "end": plan.ends,
        "asked": plan.requested,
        "layers": [_layer(plan, number) for number in cut.layers],
        "inputs": [_input(border, file) for border, file in plan.inputs()],
        "outputs": [
            {"op": output.op, "output_index": output.output_index, "is_end": output.is_end}
            for output in cut.outputs
        ],
        "outside_readers": [
            {"reader": reader.reader, "op": reader.op, "output_index": reader.output_index}
            for reader in cut.outside_readers
        ],
        "spanning_ops": [
            {"op": op.op, "inside": list(op.inside), "outside": list(op.outside), "where": op.where}
            for op in plan.spanning
        ],
        "dumps": [
            {
                "file": "dump_data/" + file.name,
                "op": file.op,
                "layers": list(file.layers),
                "role": file.role,
                "sha256": sha256_of_file(file.path),
            }
            for file in plan.gathered.dumps
        ],
        "dropped": {
            "control_edges": [
                {"node": node, "from": other} for node, other in cut.dropped_controls
            ],
            "colocations": [
                {"node": node, "with": other} for node, other in cut.dropped_colocations
            ],
        },
        "missing": [{"what": what, "reason": reason} for what, reason in plan.gathered.missing],
        "warnings": [warning.document() for warning in plan.warnings],
        "next": next_steps,
    }
    if plan.search is not None:
        document["search"] = plan.search
    return document


def _layer(plan: Plan, number: int) -> Dict[str, Any]:
    original = plan.original
    weights = plan.weights is not None and original.names[number] in plan.weights.shapes
    ops = [] if plan.ops is None else [op.name for op in plan.ops.of(number)]
    return {
        "name": original.names[number],
        "type": original.types[number],
        "ops": ops,
        "weights": weights,
    }


def _input(border: Border, file: Optional[InputFile]) -> Dict[str, Any]:
    entry = border.entry
    overflow = None if file is None or file.bin is None else {"inf": file.inf, "zero": file.zero}
    return {
        "name": entry.name,
        "tensor": entry.tensor,
        "producer": {"op": entry.producer, "output_index": entry.output_index},
        "kind": entry.kind,
        "readers": list(dict.fromkeys(reader for reader, _ in entry.readers)),
        "dtype": border.dtype,
        "shape": list(border.shape),
        "shape_source": border.shape_source,
        "from": border.origin,
        "source_file": None if border.source_file is None else os.path.abspath(border.source_file),
        "npy": None if file is None else file.npy,
        "bin": None if file is None else file.bin,
        "bin_dtype": None if file is None else file.bin_dtype,
        "float16_overflow": overflow,
    }


def log_lines(plan: Plan, folder: str) -> List[str]:
    """Return the entries of an export's log: added inputs, the folder of the dumps, the dumps by
    op, the exported layers.

    An entry has several lines; names are escaped, so they contain no line breaks.
    """
    lines: List[str] = []
    for border in plan.borders:
        if not border.entry.unchanged:
            text = plan.original.input_text(border.entry, border.dtype, border.shape)
            lines.append(
                "Add Layer Into Prototxt:\n" + text
                if plan.original.kind == "caffe"
                else "Add Node Into Graph:\n" + text
            )
    lines.append(
        printable("Output Dump Path:" + os.path.join(os.path.abspath(folder), "dump_data"))
    )
    for file in plan.gathered.dumps:
        if file.role == OP:
            parts = ["Dump Layer:[%s]" % ", ".join(file.layers), "Output File:" + file.name]
            parts += ["Input File:" + os.path.basename(path) for path in file.inputs]
            lines.append("\n".join(map(printable, parts)))
    names = [plan.original.names[number] for number in plan.cut.layers]
    lines.append(printable("Export Layer:" + ", ".join(names)))
    return lines


def contents(plan: Plan) -> List[str]:
    """Return the planned contents of an export's folder, one line each; names are not escaped."""
    names = [plan.original.names[number] for number in plan.cut.layers]
    noun = plan.original.noun if len(names) == 1 else plan.original.noun + "s"
    lines = [
        "%s: %d %s, %s"
        % (
            plan.original.file_name,
            len(names),
            noun,
            " … ".join(dict.fromkeys((names[0], names[-1]))),
        )
    ]
    lines += ["dump.caffemodel"] if plan.weights is not None else []
    lines += (
        ["dump.onnx.data, where weights of the cut lie outside of the model"]
        if getattr(plan.original, "external", None)
        else []
    )
    for border, file in plan.inputs():
        text = "input %s: %s %s" % (border.entry.name, border.dtype, list(border.shape))
        lines.append(
            text + (", no values" if file is None else ", the %s's values" % border.origin)
        )
    dumps = len({file.path for file in plan.gathered.dumps})
    for folder, count in (("dump_data", dumps), ("golden_data", len(plan.gathered.goldens))):
        lines += ["%s: %s" % (folder, plural(count, "file"))] if count else []
    return lines + [FILE]
