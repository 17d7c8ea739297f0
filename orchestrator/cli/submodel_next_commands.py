"""``goldwatch submodel``: the next commands: convert, new golden data, compare, replay. They are
shown, never run.

Source of atc's options: the vendor's pages on ATC.
"""

from __future__ import annotations

from typing import Any, Dict, List

from ..naming import printable
from ..submodel.export_plan import Plan
from ..submodel.incoming_values import GOLDEN, TARGET
from .shell_words import command_words

_SOC = "--soc_version=<as before>"
_FRAMEWORKS = {"caffe": 0, "tensorflow": 3, "onnx": 5}
# Placeholders for what only the user knows.
_DEVICE, _WEIGHTS, _INPUT = "DUMP_OF_THE_SUBMODEL", "WEIGHTS.caffemodel", "INPUT.npy"
_GOLDEN, _OUT, _OM = "golden_of_submodel", "compared", "dump.json"


def next_steps(done: Plan) -> Dict[str, Any]:
    """Return ``{"atc", "golden", "compare", "replay": [words …], "notes": [sentence …]}``, paths
    relative to the export's folder.
    """
    kind, model = done.original.kind, done.original.file_name
    ends = ";".join(
        "%s:%d" % (output.op, output.output_index) for output in done.cut.outputs if output.is_end
    )
    atc = ["atc", "--framework=%d" % _FRAMEWORKS[kind], "--model=" + model]
    # atc takes no Caffe model without weights; layers find theirs by name in those of the whole
    # net, too.
    weights = [_WEIGHTS if done.weights is None else "dump.caffemodel"] if kind == "caffe" else []
    atc += ["--weight=" + file for file in weights]
    atc += ["--output=dump", _SOC]
    atc += ["--input_format=NHWC"] if kind == "tensorflow" else []
    atc += ["--input_fp16_nodes=" + ";".join(done.halves)] if done.halves else []
    # The outputs of an ONNX model already are its ends.
    atc += ["--out_nodes=" + ends] if ends and kind != "onnx" else []
    words = []
    for border, file in done.inputs():
        name = border.entry.tensor if kind == "caffe" else border.entry.name
        words += [
            "-i" if kind != "onnx" else "--input",
            "%s=%s" % (name, _INPUT if file is None else file.npy),
        ]
    golden = {"caffe": ["caffe", model, *weights], "onnx": ["onnx", model], "tensorflow": ["tf"]}[
        kind
    ]
    own_model = ["--pb", model] if kind == "tensorflow" else []
    own_weights = ["--weights", *weights] if weights else []
    return {
        "atc": atc,
        "golden": command_words(
            ["goldwatch", "golden", golden[0], "dump"],
            golden[1:],
            [*own_model, *words, "-o", _GOLDEN],
        ),
        "compare": ["goldwatch", "compare", _DEVICE, _GOLDEN, "-f", _OM, "-o", _OUT],
        "replay": command_words(
            ["goldwatch", "replay"], [_DEVICE, model], [*own_weights, "-f", _OM, "-o", "replayed"]
        ),
        "notes": _notes(done),
    }


def _notes(done: Plan) -> List[str]:
    notes = [
        "options of atc that change numbers (precision_mode, fusion switch, op_precision …) "
        "must be those of the whole model",
        "make the json of the new om with: atc --mode=1 --om=dump.om --json=%s" % _OM,
    ]
    recorded = [border.entry.name for border in done.borders if border.entry.unchanged]
    if recorded:
        names = printable(", ".join(recorded))
        notes.append(
            "the sub-model begins at the net's own input %s: if the whole model was converted "
            "with AIPP (insert_op_conf), do so here too, "
            "without input_fp16_nodes for it, and feed it what the whole model is fed; else "
            "leave insert_op_conf out" % names
        )
    else:
        notes.append("the sub-model has no input data layer: no AIPP (leave insert_op_conf out)")
    if done.halves:
        notes.append("the .bin files are float16: without input_fp16_nodes the sizes do not match")
    if any(border.origin == TARGET for border in done.borders):
        notes.append(
            "the inputs are what the device recorded: golden data must be made anew with the "
            "command above; comparing with the original "
            "golden data would count the error that came in"
        )
    if done.borders and all(border.origin == GOLDEN for border in done.borders):
        notes.append(
            "the inputs are golden data: the original golden data stay valid for this cut, "
            "and need not be made anew"
        )
    return notes
