"""The page of ``goldwatch graph``: a whole network to look at, and from where to where a part of it
is to be cut out or dumped.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ...base.naming import printable
from .graph_result import GraphResult, doubt
from .html_file import page, text
from .network_drawing import Flow, NetworkOp
from .network_folding import constants_of, network_shown
from .read_page_model import OM, PageModel

_STYLES = ("base.css", "graph.css", "graph_page.css")
_SCRIPTS = (
    "common.js",
    "minimap.js",
    "graph.js",
    "folding.js",
    "graph_choice.js",
    "graph_original.js",
    "graph_page.js",
)
_KINDS = {
    OM: "the device's ops",
    "caffe": "a Caffe net",
    "tensorflow": "a frozen TensorFlow graph",
    "onnx": "an ONNX model",
}


class Commands(NamedTuple):
    """The words of the commands that the page completes with what is chosen; None where one does
    not apply.

    Attributes
    ----------
    submodel
        Before and behind ``--start NAME --end NAME``.
    no_submodel
        Why there is no submodel command, where there is none.
    config
        Before and behind the names of the layers.
    om_json
        What stands there for the json of an om that nobody named; empty where one is.
    shapes_told
        Whether an option of the submodel command tells shapes, so that the page adds none.
    """

    submodel: Optional[Sequence[Sequence[str]]]
    no_submodel: str
    config: Optional[Sequence[Sequence[str]]]
    shapes_told: bool
    om_json: str = ""


def graph_page(
    model: PageModel,
    commands: Commands,
    result: Optional[GraphResult] = None,
    original: Optional[PageModel] = None,
) -> str:
    """Return the page of a model as HTML, with the original one that it was compiled from beside
    it.
    """
    ops = _with_shapes(model, result) if result is not None else model.ops
    verdicts = _verdicts(model, result) if result is not None else {}
    bad = [number for number, op in enumerate(ops) if verdicts.get(op.name) == "fail"]
    data = {
        "ops": [
            dict(
                _asking(model, number, result),
                name=op.name,
                verdict=verdicts.get(op.name),
                weights=op.weights,
            )
            for number, op in enumerate(ops)
        ],
        "network": network_shown(ops, verdicts),
        "rows": _rows(model, result),
        "submodel": commands.submodel,
        "noSubmodel": commands.no_submodel,
        "config": commands.config,
        "omJson": commands.om_json,
        "shapes": not commands.shapes_told,
        "first": bad[0] if bad else None,
        "original": None
        if original is None
        else _beside(model, original, {} if result is None else _verdicts(original, result)),
    }
    title = printable(model.name or model.path)
    doubtful = "" if result is None else doubt(model, result)
    return page(
        "%s: the network" % title,
        _body(model, ops, verdicts, title, doubtful),
        {"network": data},
        _STYLES,
        _SCRIPTS,
    )


def _beside(model: PageModel, original: PageModel, verdicts: Dict[str, str]) -> Dict[str, Any]:
    """Return the original model's network, and by the number of each compiled op the numbers of the
    original ones in it.
    """
    constants = constants_of(original.ops)
    numbers: Dict[str, List[int]] = {}
    for number, op in enumerate(original.ops):
        numbers.setdefault(op.name, []).append(number)
    sources = [
        [number for name in detail["originals"] or () for number in numbers.get(name, ())]
        for detail in model.details
    ]
    return {
        "name": printable(original.name or original.path),
        "ops": [
            {
                "name": op.name,
                "type": op.type,
                "inputs": [flow.source for flow in op.inputs],
                "outputs": beside["outputs"],
                "weights": op.weights,
                "constant": number in constants,
            }
            for number, (op, beside) in enumerate(zip(original.ops, original.details))
        ],
        "network": network_shown(original.ops, verdicts),
        "sources": sources,
    }


def _with_shapes(model: PageModel, result: GraphResult) -> List[NetworkOp]:
    """Return the ops of an original model with the shapes that were recorded where the model itself
    says none.
    """
    if model.kind == OM:
        return model.ops

    def with_shape(index: int, text: str, source: int) -> str:
        shape = result.shapes.get((model.ops[source].name, index))
        known = text[:1].isdigit() or text.startswith("scalar")
        return (
            text
            if shape is None or known
            else "%s %s" % (",".join(map(str, shape)) or "scalar", text)
        )

    def shown(flow: Flow) -> Flow:
        return flow._replace(text=with_shape(flow.output, flow.text, flow.source))

    return [op._replace(inputs=tuple(map(shown, op.inputs))) for op in model.ops]


def _asking(model: PageModel, number: int, result: Optional[GraphResult]) -> Dict[str, Any]:
    """Return the details of an op with the shapes that were recorded in the place of those that a
    cut would have to be told.
    """
    detail = model.details[number]
    if result is None or model.kind == OM:
        return detail
    flows = iter(model.ops[number].inputs)

    def with_shape(entry: List[Any]) -> List[Any]:
        flow = None if entry[0] is None else next(flows)
        shape = (
            None if flow is None else result.shapes.get((model.ops[flow.source].name, flow.output))
        )
        unknown = entry[3] is not None and "?" in entry[3]
        return entry if shape is None or not unknown else [*entry[:3], ",".join(map(str, shape))]

    return dict(detail, inputs=[with_shape(entry) for entry in detail["inputs"]])


def _verdicts(model: PageModel, result: GraphResult) -> Dict[str, str]:
    verdicts = {}
    for op in model.ops:
        verdict = result.verdicts.get(op.name)
        if verdict is not None:
            verdicts[op.name] = verdict
    return verdicts


def _rows(model: PageModel, result: Optional[GraphResult]) -> Dict[str, Any]:
    if result is None:
        return {}
    names = [op.name for op in model.ops if op.name in result.rows]
    return {
        name: {"rows": result.rows[name], "more": result.left_out.get(name, 0)} for name in names
    }


def _body(
    model: PageModel, ops: Sequence[NetworkOp], verdicts: Dict[str, str], title: str, doubtful: str
) -> str:
    counts = "%s: %d %s" % (_KINDS[model.kind], len(ops), "op" if len(ops) == 1 else "ops")
    failing = sum(verdicts.get(op.name) == "fail" for op in ops)
    parts = ["%d of them outside their limits" % failing] if failing else []
    parts += (
        ["none of them outside its limits"] if verdicts and not failing and not doubtful else []
    )
    line = "; ".join([counts, *parts])
    note = (
        '\n<p id="doubt" role="note"><b>%s</b></p>' % text(doubtful[:1].upper() + doubtful[1:])
        if doubtful
        else ""
    )
    return _BODY % {
        "title": text(title),
        "line": text(line),
        "note": note,
    }


_BODY = """<header>
<h1 class="name">%(title)s</h1>
<p class="quiet">%(line)s</p>%(note)s
<p id="address" class="problem" role="alert" hidden></p>
</header>
<main class="workbench" id="workbench" hidden>
<div class="side">
<section class="finding" aria-label="find an op">
<input type="search" id="search" placeholder="find an op: name, type, original, parameter"
 aria-label="find an op by name, type, original name or parameter" role="combobox" aria-expanded="true" aria-controls="results"
 aria-autocomplete="list" autocomplete="off" spellcheck="false">
<p class="quiet" id="found" role="status"></p>
<div id="results" role="listbox" aria-label="ops"></div>
</section>
<section id="detail" aria-label="the chosen op" tabindex="-1"></section>
<section id="fusions" aria-label="what was fused into what"></section>
</div>
<div class="sheet">
<section class="choosing" id="choosing" aria-label="start and end"></section>
<section class="drawing" aria-label="the network">
<h2 id="compiled-head" hidden>Compiled model</h2>
<div id="tools"></div>
<div class="network" id="graph" tabindex="0" role="group" aria-label="the network: plus and minus zoom, 0 shows all, arrows move,
 n and p go to the next and the previous op, f and Shift f to the next and the previous op outside its limits, u folds the group around
 the op, s and e choose start and end"></div>
</section>
<section class="drawing" id="beside" aria-labelledby="beside-head" hidden>
<h2 id="beside-head"></h2>
<div id="beside-tools"></div>
<div class="network" id="original" tabindex="0" role="group" aria-label="the original network: plus and minus zoom, 0 shows all,
 arrows move"></div>
</section>
</div>
</main>
<main id="plain">
<p>The page's script draws the network.</p>
</main>"""  # noqa: E501
