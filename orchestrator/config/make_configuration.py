"""Makes a configuration: from what the user asks for to a plan, its text and what the checker says
about it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from ..base.errors import EnvironmentProblem, InputError, MissingPath
from ..base.fast_dataclasses import dataclass
from ..judging.diagnosis.row_digest import execution_key
from ..metrics.row import FAIL, Row
from ..model import graphs_of_run
from ..model.graph import ModelGraph
from ..store.opening import STORE_FILE
from ..store.store import RunStore
from .cann_versions import parse_version
from .check import Checker
from .dump_plan import EXCEPTION_SCENES, DumpPlan, ModelDump, PlanError, Skip
from .dump_plan_formats import CODE_FORMS, NPU_FORMS, write_plan
from .dump_steps import step_fix, step_problems
from .finding import ERROR, Finding, Report
from .layer_selection import Selection, choose, divided, named_ops, resolve_layers
from .models import Models, load_models, models_to_dump, require_models


@dataclass(frozen=True)
class Divergence:
    """The first divergent op of a comparison.

    Attributes
    ----------
    op
        Its name as the comparison has it.
    neighbours
        The ops that ran just before and after it, nearest first, as the comparison's rows show
        them.
    model_json
        The model's file that the comparison was made with, when it still exists.
    model
        The model_name folder of its dump; None where there is none.
    step
        Its step; None where the run has one step only.
    """

    op: str
    neighbours: Tuple[str, ...] = ()
    model_json: Optional[str] = None
    model: Optional[str] = None
    step: Optional[str] = None


def read_divergence(path: str) -> Divergence:
    """Return the first divergent op of a store, or of the output folder that holds one.

    Raises
    ------
    MissingPath
        There is no store.
    InputError
        No operator diverges in it, or it cannot be read.
    """
    out = path
    if not os.path.isdir(path):
        if not os.path.exists(path):
            raise MissingPath(
                "%s does not exist" % path, hint="name the output folder of compare, watch or run"
            )
        out = os.path.dirname(path) or "."
        if os.path.basename(path) not in (STORE_FILE, "result.json"):
            raise InputError(
                "%s is no %s" % (path, STORE_FILE),
                hint="name the output folder of compare, watch or run",
            )
    with RunStore.open(out) as store:
        failing = list(store.rows(verdict=FAIL))
        if not failing:
            raise InputError(
                "no operator of %s is outside its limits" % out,
                hint="there is nothing to narrow down",
            )
        first = min(failing, key=execution_key)
        rows = list(store.rows())
        order = _execution_order(rows, first)
        inputs = store.get("inputs") or {}
    has_several_steps = len({row.step for row in rows}) > 1
    return Divergence(
        first.op,
        _nearest_first(order, first.op),
        _model_json(inputs, first.model),
        first.model,
        first.step if has_several_steps else None,
    )


def _execution_order(rows: List[Row], first: Row) -> List[str]:
    """Return the op names of the first divergence's place in execution order."""
    place = (first.time, first.device, first.model, first.model_id, first.step)
    here = [
        row
        for row in rows
        if (row.time, row.device, row.model, row.model_id, row.step) == place and row.kind != "op"
    ]
    return list(dict.fromkeys(row.op for row in sorted(here + [first], key=execution_key)))


def _nearest_first(order: List[str], op: str) -> Tuple[str, ...]:
    number = {name: index for index, name in enumerate(order)}
    return tuple(
        sorted(
            (name for name in order if name != op), key=lambda name: abs(number[name] - number[op])
        )
    )


def _model_json(inputs: object, model_name: Optional[str]) -> Optional[str]:
    """Return the model's file among a store's inputs: of a folder of them the one of this name."""
    value = inputs.get("model") if isinstance(inputs, dict) else None
    if not isinstance(value, str) or not os.path.exists(value):
        return None
    if not os.path.isdir(value):
        return value
    try:
        graph = graphs_of_run.load_models(value).of(model_name)
    except InputError:
        return None
    return None if graph is None else graph.path


#: The fields of the consumers' forms that a refusal may be about.
_FIELDS = (
    "dump_path", "dump_mode", "dump_op_switch", "dump_step", "dump_data", "dump_stats",
    "dump_level", "dump_debug", "dump_scene",
    "dump_kernel_data", "model_name", "layer", "watcher_nodes", "optype_blacklist",
    "opname_blacklist", "opname_range", "enable_dump_debug",
    "dump_debug_mode", "dump_layer",
)  # fmt: skip
_EVERYTHING = "neither a model nor a switch was named: everything is dumped"


@dataclass(frozen=True)
class Request:
    """What the user asks for.

    Attributes
    ----------
    form
        One of ``forms.FORMS``.
    plan
        What was said about the plan; ``models`` holds the models that were named.
    complete
        Whether the plan comes from a file and is taken as it is.
    om, om_names
        Model files, and what their .om files are called (``models.Models``).
    selection
        Which layers of the models.
    skip_types, skip_ops, op_ranges, watch_nodes
        What holds for every model entry.
    narrow
        The output folder of an earlier comparison.
    cann, elsewhere, devices
        As in ``check.check_file``.
    """

    form: str
    plan: DumpPlan
    complete: bool = False
    om: Tuple[str, ...] = ()
    om_names: Tuple[str, ...] = ()
    selection: Selection = Selection()
    skip_types: Tuple[Skip, ...] = ()
    skip_ops: Tuple[Skip, ...] = ()
    op_ranges: Tuple[Tuple[str, str], ...] = ()
    watch_nodes: Tuple[str, ...] = ()
    narrow: Optional[str] = None
    cann: Optional[str] = None
    elsewhere: bool = False
    devices: int = 1


@dataclass(frozen=True)
class Configuration:
    """A configuration ready to be written.

    Attributes
    ----------
    text
        In the form that was asked for.
    plan
        What it says.
    report
        What the checker says; no errors but a dump_path that does not exist here yet.
    remarks
        What was decided for the user.
    """

    text: str
    plan: DumpPlan
    report: Report
    remarks: Tuple[str, ...]


def make_configuration(request: Request) -> Configuration:
    """Return the configuration that ``request`` asks for.

    Raises
    ------
    PlanError
        Wishes that contradict one another, that the model does not know, or that a consumer would
        reject.
    MissingPath, InputError, EnvironmentProblem
        A model, a store or dump_path cannot be used.
    """
    if request.cann:
        parse_version(request.cann)
    _check_step(request.plan.step)
    divergence = read_divergence(request.narrow) if request.narrow else None
    om = request.om or ((divergence.model_json,) if divergence and divergence.model_json else ())
    every = load_models(om, request.om_names)
    models = models_to_dump(every, request.om_names)
    maker = _Maker(request, models, divergence)
    plan = maker.plan()
    text = write_plan(plan, request.form)
    report = _checked(request, plan, text, every)
    return Configuration(text, plan, report, tuple(maker.remarks))


class _Maker:
    """Turns a request into a plan."""

    def __init__(self, request: Request, models: Models, divergence: Optional[Divergence]) -> None:
        self.request = request
        self.models = models
        self.divergence = divergence
        self.remarks: List[str] = []

    def plan(self) -> DumpPlan:
        """Return the plan, with the models' entries filled in."""
        plan = self.request.plan
        names = [model.name for model in plan.models or () if model.name]
        if self.request.form in NPU_FORMS and names:
            self.remarks.append(
                "npu settings know no model names: %s is left out, the settings hold for "
                "every model" % ", ".join(names)
            )
        if self.request.complete:
            return plan
        if self.divergence and plan.mode is None and plan.scene != "watcher":
            plan = replace(plan, mode="all")
        if self.divergence and self.divergence.step and plan.step is None:
            plan = replace(plan, step=self.divergence.step)
            self.remarks.append(
                "only step %s is dumped: the first in which it diverges" % self.divergence.step
            )
        extras = bool(self.request.skip_types or self.request.skip_ops or self.request.op_ranges)
        if extras and plan.level is None:
            plan = replace(plan, level="op")
        entries = self._entries(plan, extras)
        if entries is not None:
            entries = tuple(self._completed(entry) for entry in entries)
        plan = replace(plan, models=entries)
        if self.request.form in NPU_FORMS and plan.models:
            plan.refuse_acl_only()
            plan = plan.without_names()
        return plan

    def _entries(self, plan: DumpPlan, extras: bool) -> Optional[Tuple[ModelDump, ...]]:
        chosen = bool(self.request.selection or self.divergence)
        if plan.models:
            return tuple(self._named(entry, chosen) for entry in plan.models)
        if chosen:
            return self._chosen(plan)
        if plan.debug or plan.scene in EXCEPTION_SCENES:
            return None
        if plan.scene == "watcher" or (extras and not self.models.graphs):
            return (ModelDump(),)
        if plan.op_switch and not extras:
            return ()
        if self.models.graphs:
            return tuple(ModelDump(name=graph.name or None) for graph in self.models.graphs)
        if plan.kernel_data and not plan.level and not plan.data and not plan.mode:
            self.remarks.append("only kernel data is dumped; name a model to dump ops too")
            return None
        self.remarks.append(_EVERYTHING)
        return (ModelDump(),)

    def _chosen(self, plan: DumpPlan) -> Tuple[ModelDump, ...]:
        if not self.models.graphs and self.divergence and not self.request.selection:
            names = (self.divergence.op,) + self.divergence.neighbours[
                : 2 * self.request.selection.radius
            ]
            message = (
                "around the first divergence (%s), in the order of the comparison: no model json "
                "is known"
            )
            self.remarks.append(message % self.divergence.op)
            return (ModelDump(name=self.divergence.model, layers=names),)
        require_models(self.models, "choosing layers")
        entries = []
        for graph, part in divided(self.models, self._holding_divergence(), self.request.selection):
            layers = self._layers(graph, part)
            entries.append(
                ModelDump(
                    name=None if plan.scene == "watcher" else graph.name or None, layers=layers
                )
            )
        return tuple(entries)

    def _holding_divergence(self) -> Sequence[ModelGraph]:
        """Return the models; with a divergence and no other choice only those that have its op."""
        if self.divergence is None or self.request.selection:
            return self.models.graphs
        graphs = [graph for graph in self.models.graphs if graph.op(self.divergence.op) is not None]
        if not graphs:
            message = "no model has the first divergent op %r" % self.divergence.op
            raise PlanError(message, "name the model that was compared", "narrow")
        return graphs

    def _layers(self, graph: ModelGraph, selection: Selection) -> Tuple[str, ...]:
        if self.divergence is not None:
            op = graph.op(self.divergence.op)
            center = op.name if op is not None else self.divergence.op
            selection = replace(selection, around=selection.around + (center,))
            self.remarks.append("around the first divergence: %s" % center)
        chosen = choose(self.models, graph, selection)
        self.remarks += chosen.remarks
        return chosen.names

    def _named(self, entry: ModelDump, chosen: bool) -> ModelDump:
        """Return an entry of the models asked for with its layers resolved in the model and
        completed by the selection.
        """
        if not self.models.graphs:
            if self.request.selection:
                require_models(self.models, "choosing layers")
            if self.divergence:
                entry = replace(entry, layers=entry.layers + self._chosen(DumpPlan())[0].layers)
            return entry
        graphs = self.models.named(entry.name) if entry.name is not None else self.models.graphs
        if not graphs:
            known = ", ".join(self.models.names())
            raise PlanError(
                "no model is called %r" % entry.name,
                "the json's names are: %s" % known,
                "model_name",
            )
        layers: Dict[str, None] = {}
        for name in entry.layers:
            for resolved in self._resolved(name, graphs):
                layers[resolved] = None
        if chosen:
            for graph, part in divided(self.models, graphs, self.request.selection):
                layers.update(dict.fromkeys(self._layers(graph, part)))
        return replace(entry, layers=tuple(layers))

    def _resolved(self, name: str, graphs: Sequence[ModelGraph]) -> Tuple[str, ...]:
        graph = next(
            (
                graph
                for graph in graphs
                if self.models.exact(name, [graph]) or self.models.from_original(name, [graph])
            ),
            graphs[0],
        )
        chosen = resolve_layers(self.models, graph, [name])
        self.remarks += chosen.remarks
        return chosen.names

    def _completed(self, entry: ModelDump) -> ModelDump:
        request = self.request
        graphs = self.models.named(entry.name) if entry.name else self.models.graphs
        return replace(
            entry,
            watch_nodes=entry.watch_nodes + self._fused(request.watch_nodes, graphs),
            skip_types=entry.skip_types
            + tuple(self._skip(skip, graphs, True) for skip in request.skip_types),
            skip_ops=entry.skip_ops
            + tuple(self._skip(skip, graphs, False) for skip in request.skip_ops),
            op_ranges=entry.op_ranges
            + tuple(
                (self._bound(begin, graphs), self._bound(end, graphs))
                for begin, end in request.op_ranges
            ),
        )

    def _fused(self, names: Iterable[str], graphs: Sequence[ModelGraph]) -> Tuple[str, ...]:
        return tuple(
            resolved
            for name in names
            for resolved in (self._resolved(name, graphs) if graphs else (name,))
        )

    def _bound(self, name: str, graphs: Sequence[ModelGraph]) -> str:
        """Return the end of a range by its name after fusion."""
        return named_ops(self.models, graphs[0], name)[0].name if graphs else name

    def _skip(self, skip: Skip, graphs: Sequence[ModelGraph], by_type: bool) -> Skip:
        """Return a blacklist entry with its positions: without any the consumer leaves nothing
        out.
        """
        if not by_type and graphs and not self.models.exact(skip.name, graphs):
            fused = self.models.from_original(skip.name, graphs)
            if len(fused) == 1:
                self.remarks.append("%s was fused; the model has %s" % (skip.name, fused[0].name))
                skip = replace(skip, name=fused[0].name)
        if skip.positions:
            return skip
        ops = [
            op
            for graph in graphs
            for op in graph.ops
            if (op.type if by_type else op.name) == skip.name
        ]
        if not ops:
            # With a model the checker says that it has no such name.
            if not graphs:
                message = (
                    "%s: without positions nothing is left out; name them, such as input0 and "
                    "output0, or name the model's json"
                )
                self.remarks.append(message % skip.name)
            return skip
        inputs = max(max(len(op.inputs), len(op.input_descs)) for op in ops)
        outputs = max(len(op.output_descs) for op in ops)
        return Skip(
            skip.name,
            tuple(
                ["input%d" % i for i in range(inputs)] + ["output%d" % i for i in range(outputs)]
            ),
        )


def _check_step(step: Optional[str]) -> None:
    for _, message, fix in step_problems(step or ""):
        raise PlanError(message, "write " + step_fix(fix), "step")


def _checked(request: Request, plan: DumpPlan, text: str, models: Models) -> Report:
    """Check what would be written; raise for what the checker calls an error."""
    name = "config.py" if request.form in CODE_FORMS else "config.json"
    checked = write_plan(plan, "acl") if request.form == "plan" else text
    checker = Checker(models, request.cann, request.elsewhere, request.devices)
    report = checker.check(name, checked.encode("utf-8"))
    errors = [finding for finding in report.findings if finding.severity == ERROR]
    for finding in errors:
        if not finding.environment:
            raise PlanError(
                "%s; %s" % (finding.message, finding.consumer), _advice(finding), _field(finding)
            )
    for finding in errors:
        if finding.rule != "dump-path-not-found":
            raise EnvironmentProblem(
                "%s; %s" % (finding.message, finding.consumer), hint=_advice(finding)
            )
    return report


def _advice(finding: Finding) -> str:
    return "name an existing folder" if finding.rule == "dump-path-missing" else finding.fix


def _field(finding: Finding) -> str:
    """Return the field that a finding is about, as its consumer calls it."""
    if finding.rule == "dump-path-missing":
        return "dump_path"
    return next((str(part) for part in reversed(finding.path) if part in _FIELDS), "")


def softened(findings: Iterable[Finding]) -> List[Finding]:
    """Return the findings of a configuration that was written; a dump_path still to be made is only
    a warning.
    """
    return [
        finding._replace(severity="warning") if finding.severity == ERROR else finding
        for finding in findings
    ]
