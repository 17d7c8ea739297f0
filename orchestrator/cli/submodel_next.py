"""``goldwatch submodel``: the commands to go on with: convert, golden data anew, compare, replay. They are shown, never run.

Source of atc's options: the vendor's pages on ATC.
"""

from __future__ import annotations

from typing import Any, Dict, List

from ..naming import printable
from ..submodel.borders import TARGET
from ..submodel.plan import Plan

_SOC = "--soc_version=<as before>"
# What only the user knows or has.
_DEVICE, _WEIGHTS, _INPUT = "DUMP_OF_THE_SUBMODEL", "WEIGHTS.caffemodel", "INPUT.npy"
_GOLDEN, _OUT, _OM = "golden_of_submodel", "compared", "dump.json"


def next_steps(done: Plan) -> Dict[str, Any]:
    """Return ``{"atc", "golden", "compare", "replay": [words …], "notes": [sentence …]}``, paths relative to the export's folder."""
    caffe = done.original.kind == "caffe"
    model = ["dump.prototxt"] if caffe else ["dump.pb"]
    ends = ";".join("%s:%d" % (output.op, output.output_index) for output in done.cut.outputs if output.is_end)
    atc = ["atc", "--framework=0" if caffe else "--framework=3", "--model=" + model[0]]
    atc += (["--weight=dump.caffemodel"] if done.weights is not None else []) + ["--output=dump", _SOC]
    atc += [] if caffe else ["--input_format=NHWC"]
    atc += ["--input_fp16_nodes=" + ";".join(done.halves)] if done.halves else []
    atc += ["--out_nodes=" + ends] if ends else []
    words = []
    for border, file in done.inputs():
        words += ["-i", "%s=%s" % (border.entry.tensor if caffe else border.entry.name, _INPUT if file is None else file.npy)]
    if caffe:
        weights = "dump.caffemodel" if done.weights is not None else _WEIGHTS
        golden = ["goldwatch", "golden", "caffe", "dump", model[0], weights] + words + ["-o", _GOLDEN]
    else:
        golden = ["goldwatch", "golden", "tf", "dump", "--pb", model[0]] + words + ["-o", _GOLDEN]
    own_weights = ["--weights", "dump.caffemodel"] if done.weights is not None else []
    return {
        "atc": atc,
        "golden": golden,
        "compare": ["goldwatch", "compare", _DEVICE, _GOLDEN, "-f", _OM, "-o", _OUT],
        "replay": ["goldwatch", "replay", _DEVICE, model[0]] + own_weights + ["-f", _OM, "-o", "replayed"],
        "notes": _notes(done),
    }


def _notes(done: Plan) -> List[str]:
    notes = [
        "options of atc that change numbers (precision_mode, fusion switch, op_precision …) must be those of the whole model",
        "make the json of the new om with: atc --mode=1 --om=dump.om --json=%s" % _OM,
    ]
    own = [border.entry.name for border in done.borders if border.entry.kept]
    if own:
        names = printable(", ".join(own))
        notes.append(
            "the sub-model begins at the net's own input %s: if the whole model was converted with AIPP (insert_op_conf), do so here too, "
            "without input_fp16_nodes for it, and feed it what the whole model is fed; else leave insert_op_conf out" % names
        )
    else:
        notes.append("the sub-model has no input data layer: no AIPP (leave insert_op_conf out)")
    if done.halves:
        notes.append("the .bin files are float16: without input_fp16_nodes the sizes do not match")
    if any(border.origin == TARGET for border in done.borders):
        notes.append(
            "the inputs are what the device recorded: golden data must be made anew with the command above; comparing with the original "
            "golden data would count the error that came in"
        )
    return notes
