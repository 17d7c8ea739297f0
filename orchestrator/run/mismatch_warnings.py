"""Warnings that much of TARGET and GOLDEN has no counterpart: another model's json, the golden data
of another network, steps without golden data.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from ..base.errors import GoldwatchError
from ..base.naming import (
    intended_golden_name,
    lacks_name_part,
    nearest_names,
    parse_dump_name,
    parse_golden_name,
    printable,
    run_name,
    sanitise_golden,
)
from ..base.notes import ORIGINAL_CHANGED, Note, note
from ..base.wording import listed, plural
from ..dumps.folder_listing import list_folder, look_at, misnamed_notes
from ..dumps.golden_set import GoldenEntry, GoldenSet, hold_other_values
from ..dumps.place import Place, is_number, name_order
from ..judging.diagnosis.row_digest import execution_key
from ..metrics.row import (
    CORRUPT,
    DUMP_MISSING,
    FAIL,
    FUSED_BEHIND,
    GOLDEN_MISSING,
    NOT_COMPARED,
    OTHER_ALONE,
    PASS,
    TARGET_ALONE,
    Row,
)
from ..model.graph import ModelGraph
from ..model.op_node import QUANT_TYPE, gear_named, gear_of
from ..model.row_plan import INPUT, OUTPUT

if TYPE_CHECKING:
    from ..judging.diagnosis.summary import Summary
    from ..metrics.pair_task import PairTask
    from .whole_run import Run

_SHOWN = 3
_STEPS_SHOWN = 8
SEVERAL_RUNS = "several-golden-runs"
UNKNOWN_OPS = "unknown-ops"
OTHER_STEPS = "golden-of-other-steps"
OF_ONE_STEP = "golden-of-one-step"
OTHER_FUSIONS = "other-fusions"
OTHER_JSON = (UNKNOWN_OPS, OTHER_FUSIONS)
"""Codes of what tells that the json is not that of the om that was dumped."""
_DOUBTS = {
    OTHER_FUSIONS: " But the om has operators fused that the json has apart: give first that of "
    "the om that was dumped.",
    UNKNOWN_OPS: " But TARGET has ops that are not in the json: give first that of the om that was "
    "dumped.",
    OTHER_STEPS: "",
    OF_ONE_STEP: "",
    SEVERAL_RUNS: " GOLDEN holds several runs in other values: the newest may be of another one.",
    ORIGINAL_CHANGED: " But golden data are of another model file than the one that is there now: "
    "make them again first.",
}
_FUSED_SOMEWHERE = "SELECT 1 FROM tensor WHERE instr(reason_codes, '%s=') LIMIT 1" % FUSED_BEHIND
_RUNS_READ = 64
_STEPS_TRIED, _STEP_TENSORS = 8, 8
_NONE_FITS = " No operator with weights fits: golden data may be of another model."


def mismatch_warnings(run: Run) -> List[Note]:
    """Say it, a sentence each, where the dumped ops are not the model's, golden data lack steps, or
    nothing has golden data at all.
    """
    counts = run.store.counted.all()
    misnamed = misnamed_notes(
        [path for path in sorted(run.goldens.misnamed) if look_at(path) is not None]
    ) + _to_rename(run)
    dumped = _dumped_ops(run)
    foreign = [text for graph, names in dumped.items() for text in unknown_ops(graph, names)]
    layers = (
        [] if foreign else _few_layers(run, {name for names in dumped.values() for name in names})
    )
    warnings = [
        *foreign,
        *_fused_otherwise(run),
        *_steps(run),
        *_gears(run),
        *_models(run),
        *_golden_runs(run),
        *misnamed,
        *_quantisation(run),
        *_two_builds(run),
        *layers,
        *_damaged(run),
    ]
    if not (counts.get(PASS) or counts.get(FAIL)):
        from ..kinds.wrong_kind_advice import foreign_golden

        advice = foreign_golden(run.options.golden_index)
        if advice is not None:
            return [
                *warnings,
                note("foreign-golden", run.goldens.folder, advice.words, advice.hint),
            ]
        warnings += _other_shapes(run) or _without_golden(run)
    return warnings + run.engine.misfit


def _other_shapes(run: Run) -> List[Note]:
    """Warn where golden data of most names are there, and these are of other shapes."""
    outputs = [row for row in run.store.rows("index", verdict=NOT_COMPARED) if row.kind == OUTPUT]
    rows = [row for row in outputs if row.cause == "shape"]
    if not rows or 2 * len(rows) <= len(outputs):
        return []
    shapes = rows[0].reason.rpartition("golden differs in shape: ")[2]
    return [note("other-shapes", plural(len(rows), "output"), rows[0].tensor, shapes)]


def _quantisation(run: Run) -> List[Note]:
    """Warn where the quantisation json is missing, or maps names that GOLDEN has already."""
    if not run.graphs or run.goldens.kind == "npu" or run.options.unfused is not None:
        return []
    missing = [
        row for row in run.store.rows("index", verdict=NOT_COMPARED) if row.cause == GOLDEN_MISSING
    ]
    quants = [op.name for graph in run.graphs.graphs for op in graph.ops if op.type == QUANT_TYPE]
    if run.options.quantisation is None:
        if not missing or not quants:
            return []
        without = listed([row.golden for row in missing], _SHOWN)
        return [note("quantised", listed(quants, _SHOWN), without)]
    ours = set(run.goldens.every.op_names())
    named = [op for row in missing for graph in run.graphs.graphs for op in graph.ops_named(row.op)]
    ops = [
        name for op in named for name in op.file_originals or () if sanitise_golden(name) in ours
    ]
    shown_ops = listed(list(dict.fromkeys(ops)), _SHOWN)
    return [note("superfluous-quantisation", shown_ops)] if ops else []


def _two_builds(run: Run) -> List[Note]:
    """Warn if most tensors of two dumps differ in layout or lack a counterpart: one build fused
    what the other did not.
    """
    if run.goldens.kind != "npu":
        return []
    if run.options.unfused is not None:
        return _other_originals(run)
    compared, apart, alone, ops, theirs = 0, 0, 0, 0, 0
    for row in run.store.rows():
        compared += row.verdict in (PASS, FAIL)
        apart += row.cause == "shape"
        is_alone = row.cause == GOLDEN_MISSING or row.reason_codes == TARGET_ALONE
        alone += is_alone
        ops += is_alone and row.kind != INPUT
        theirs += (
            row.cause == DUMP_MISSING and not row.target_file
        ) or row.reason_codes == OTHER_ALONE
    # Where one of them alone has operators of its own, the other fused these, or ended early.
    alone = alone + theirs if ops and (theirs or not compared) else 0
    if apart + alone <= compared:
        return []
    places = run.store.places()
    for level, values in run.goldens.every.dumps.levels().items():
        ours = sorted({getattr(place, level) for place in places} - {None})
        if ours and not {*map(run_name, ours)} & {*map(run_name, values)}:
            shown = [
                listed([printable(value) for value in some], _SHOWN) for some in (ours, values)
            ]
            return [note("other-places", level, *shown)]
    return [note("two-builds", plural(compared + apart + alone, "tensor"), apart, alone)]


def _other_originals(run: Run) -> List[Note]:
    """Warn if most tensors of two builds lack a counterpart by the names of original operators."""
    compared, missing = 0, []
    for row in run.store.rows():
        compared += row.verdict in (PASS, FAIL)
        if row.cause == GOLDEN_MISSING:
            missing.append(row.golden or row.op)
    if len(missing) <= compared:
        return []
    names = listed(sorted(set(map(printable, missing))), _SHOWN)
    every = plural(compared + len(missing), "tensor")
    return [note("other-original-names", every, len(missing), names)]


def _to_rename(run: Run) -> List[Note]:
    """Name the files of GOLDEN that would hold what is missing if they were called as golden files
    are.
    """
    folder = run.goldens.folder
    missing = [
        row.golden
        for row in run.store.rows("index", verdict=NOT_COMPARED)
        if row.cause == GOLDEN_MISSING
    ]
    if not missing:
        return []
    wrong = [
        name
        for _, names in islice(run.options.golden_index.files(), 1)
        for name in names
        if name.endswith(".npy") and parse_golden_name(name) is None
    ]
    if all(map(_is_misnamed, wrong)):
        return []
    op_names = {sanitise_golden(name) for golden in missing for name in golden.split(",")}
    from ..adapters.tensorflow.rename import RENAME, plan_renames

    plan = [
        step
        for step in plan_renames(folder)
        if step.action == RENAME and not _is_misnamed(step.old)
    ]
    old_names = [step.old for step in plan if (step.new or "").split(".")[0] in op_names]
    return [note("to-rename", listed(old_names, _SHOWN))] if old_names else []


def _damaged(run: Run) -> List[Note]:
    """Warn of files that could not be read whole, the first with its reason."""
    reasons: Dict[str, str] = {}
    for row in run.store.rows("index", verdict=NOT_COMPARED):
        if row.cause == CORRUPT and row.target_file:
            reasons.setdefault(row.target_file, row.reason)
    if not reasons:
        return []
    return [note("damaged-files", plural(len(reasons), "file"), next(iter(reasons.values())))]


def _is_misnamed(name: str) -> bool:
    """Tell whether the listing of a folder names a file as one whose name is not right."""
    return lacks_name_part(name) or intended_golden_name(name) is not None


def _few_layers(run: Run, dumped: Set[str]) -> List[Note]:
    """Warn where most ops have no dump and no configuration tells which were requested, and where
    an earlier run deleted dumps.
    """
    lost = {
        row.op
        for row in run.store.rows(verdict=NOT_COMPARED)
        if row.cause == DUMP_MISSING and not row.target_file
    }
    deleted = None
    if lost:
        from .dump_deletion import deleted_dumps

        deleted = deleted_dumps(run.options.target, run.options.out)
    if deleted is not None:
        names = (parse_dump_name(os.path.basename(path)) for path in deleted[1])
        gone = {sanitise_golden(name.op_name) for name in names if name is not None}
        ops = {op for op in lost if sanitise_golden(op) in gone}
        if ops:
            return [note("deleted-after-comparison", plural(len(ops), "operator"), deleted[0])]
    if run.options.plan is not None or not run.graphs or run.goldens.kind == "npu":
        return []
    if len(lost) <= len(dumped):
        return []
    return [note("few-layers", len(lost), len(lost) + len(dumped))]


def _dumped_ops(run: Run) -> Dict[ModelGraph, Dict[str, bool]]:
    """Return of each model the names of the ops that were dumped, and whether the model knows
    them.
    """
    dumped: Dict[ModelGraph, Dict[str, bool]] = {}
    seen: Dict[ModelGraph, Set[int]] = {}
    for folder, files in run.catalogue.files.each().by_folder():
        graph = run.graphs.of(folder.place.model)
        # Another model's dumps, below a folder of the same name, are left out, which is said by
        # itself.
        if graph is None or not run.engine.places.is_taken(folder.place):
            continue
        ops, names = files.ops(), dumped.setdefault(graph, {})
        new = ops.keys() - seen.setdefault(graph, set())
        seen[graph] |= new
        for name in (str(ops[number][1]) for number in sorted(new)):
            if name not in names:
                names[name] = run.engine.places.planner(folder.place).knows(name)
    return dumped


def unknown_ops(graph: ModelGraph, names: Dict[str, bool]) -> List[Note]:
    """Say it where ops were dumped that the json has not.

    Parameters
    ----------
    names
        Of the ops that were dumped, and whether the json has each.
    """
    unknown = [name for name, known in names.items() if not known]
    if not unknown:
        return []
    none = (
        "none of TARGET's ops is"
        if len(unknown) == len(names)
        else "%d of TARGET's %d ops %s not"
        % (len(unknown), len(names), "is" if len(unknown) == 1 else "are")
    )
    connections = ""
    if not any(op.inputs for op in graph.ops):
        connections = (
            " It has no connections, as a quantisation json, which goes with the model's and not "
            "in its place."
        )
    near = nearest_names(unknown[0], (op.name for op in graph.ops), _SHOWN)
    named = unknown[0] + ("; the model has %s" % ", ".join(near) if near else " is not")
    return [note(UNKNOWN_OPS, none, graph.path, connections, named)]


def _steps(run: Run) -> List[Note]:
    without, names = steps_without_golden(run), run.goldens.step_names
    warnings = []
    if without:
        listed_names = shown(names) or "none"
        warnings.append(note("steps-without-golden", listed_names, _word(without), shown(without)))
    never = _steps_without_dump(run, names)
    if never:
        warnings.append(note("steps-without-dump", _word(never), shown(never)))
    return warnings


def _steps_without_dump(run: Run, names: List[str]) -> List[str]:
    """Return the steps of GOLDEN that were not dumped; none where TARGET is the folder of a single
    step.
    """
    if not names or not run.goldens.takes_steps_apart:
        return []
    folders = [folder for folder, _ in run.catalogue.files.each().by_folder()]
    dumped = {folder.place.step for folder in folders}
    return (
        [name for name in names if name not in dumped]
        if any(folder.rel for folder in folders)
        else []
    )


def _gears(run: Run) -> List[Note]:
    """Warn which gears of a model ran where, if golden data of one input shape are for several."""
    if run.goldens.takes_steps_apart:
        return []
    ran: Dict[ModelGraph, Dict[str, str]] = {}
    for place, files in run.catalogue.by_place().items():
        graph = run.graphs.of(place.model)
        if graph is None or not any(map(gear_named, graph.graph_names)):
            continue
        for file in files:
            op = graph.op(file.op_name)
            gear = gear_of(op, graph.graph_names[op.graph_index]) if op is not None else None
            if gear is not None:
                ran.setdefault(graph, {}).setdefault(gear, place.label())
    several = [gears for gears in ran.values() if len(gears) > 1]
    return [
        note("several-gears", "; ".join("%s in %s" % pair for pair in gears.items()))
        for gears in several
    ]


def _models(run: Run) -> List[Note]:
    """Warn where no golden data of several models are known to be of a dumped one."""
    folders = run.goldens.model_folders
    names = {place.model for place in run.engine.places if run.engine.places.is_modelled(place)}
    one_name, found = run.graphs.model_names, set(folders.values())
    others = sorted(name for name in names if name and one_name.get(name, name) not in found)
    without = {place.model for place in run.engine.places if not len(run.goldens.of(place))}
    of_others = [(name, run.goldens.folders_of_others(name)) for name in others if name in without]
    apart = [
        note("golden-of-another-model", name, listed(named, _SHOWN))
        for name, named in of_others
        if named
    ]
    if len(folders) < 2 or not others or apart:
        return apart
    every = listed(sorted(folders), _SHOWN)
    return [note("several-golden-models", every, listed(others, _SHOWN))]


def _golden_runs(run: Run) -> List[Note]:
    """Warn where GOLDEN holds several runs in one folder, in other values, and the target's dumps
    of an operator are not as many.
    """
    goldens = {id(golden): golden for golden in map(run.goldens.of, run.engine.places)}.values()
    loops = {file.iteration[1] for file in run.catalogue.files.each() if file.iteration}
    several = [
        entries
        for golden in goldens
        for entries in golden.of_several_runs()
        if len(entries) not in loops
    ]
    # Read are files of so many outputs, at most.
    differing = next(filter(hold_other_values, islice(several, _RUNS_READ)), None)
    if differing is None:
        return []
    names = listed([os.path.basename(entry.rel) for entry in differing], _SHOWN)
    return [note(SEVERAL_RUNS, plural(len(several), "output"), names)]


def with_other_files(summary: Summary, run: Run) -> Summary:
    """Return the summary with a warning where golden data are of another file than the om was
    compiled from, and no operator with weights fits: two names of one model are no reason. Suspects
    there are none for certain.
    """
    if not summary.failed or run.reader is None:
        return summary
    from ..judging.diagnosis.explanations import OTHER_WEIGHTS
    from ..judging.diagnosis.suspects import LOW

    found: Dict[Tuple[str, str], Note] = {}
    places = set()
    for place in run.store.places():
        files = run.reader.other_file(place)
        if files is not None and _no_weights_fit(run, place):
            graph = run.graphs.of(place.model)
            model = printable(place.model or ("" if graph is None else graph.name))
            found.setdefault(files, note("golden-of-another-file", files[0], model, files[1]))
            places.add(place)
    suspects = tuple(
        replace(suspect, confidence=LOW) if suspect.accuses and suspect.place in places else suspect
        for suspect in summary.suspects
    )
    if not found:
        return summary
    told = any(
        explanation.kind == OTHER_WEIGHTS
        for suspect in suspects
        for explanation in suspect.explanations
    )
    return replace(
        summary,
        suspects=suspects,
        warnings=(*summary.warnings, *found.values()),
        sentence=summary.sentence + ("" if told else _NONE_FITS),
    )


def with_doubtful_golden(summary: Summary, run: Run) -> Summary:
    """Return the summary with little confidence in suspects that golden data alone tell, where
    these may be of another input (GOLDEN holds several runs in other values) or model (the file
    that they were made of has changed), or the json is of another om.
    """
    other_steps = (
        [*_golden_of_other_steps(run), *_golden_of_one_step(run)] if summary.failed else []
    )
    # Of a watch known only now, once its rows are judged.
    fused = [one for one in _fused_otherwise(run) if one not in summary.warnings]
    summary = replace(summary, warnings=(*summary.warnings, *other_steps, *fused))
    said = {one.code for one in (*summary.warnings, *run.recomputation().notes)}
    if UNKNOWN_OPS in said:
        said.discard(OTHER_FUSIONS)
    doubts = [text for code, text in _DOUBTS.items() if code in said]
    summary = replace(
        summary, sentence="".join([summary.sentence, *(" But %s." % one for one in other_steps)])
    )
    if not summary.suspects or not doubts:
        incomplete = not summary.failed and summary.not_compared
        return (
            replace(summary, sentence=summary.sentence + "".join(doubts[:1]))
            if incomplete and said & {*OTHER_JSON}
            else summary
        )
    from ..judging.by_recomputation import WRONG
    from ..judging.diagnosis.suspects import LOW

    verdicts = run.recomputation().verdicts().items()
    # The json of another om tells other originals, by which operators were computed again.
    computed = (
        set()
        if said & {*OTHER_JSON}
        else {(place, op) for (place, op, _), found in verdicts if found.state == WRONG}
    )
    suspects = tuple(
        replace(suspect, confidence=LOW)
        if suspect.accuses and (suspect.place, suspect.op) not in computed
        else suspect
        for suspect in summary.suspects
    )
    sentence = "".join([summary.sentence, *(doubts if suspects != summary.suspects else ())])
    return replace(summary, suspects=suspects, sentence=sentence)


def _fused_otherwise(run: Run) -> List[Note]:
    """Say it where outputs are what operators behind theirs make that have no dump."""
    if not run.store.query(_FUSED_SOMEWHERE):
        return []
    apart = [
        "the dump of %s holds what %s makes, which has none"
        % (printable(row.op), printable(behind))
        for row in run.store.rows(verdict=PASS)
        for behind in filter(None, [row.code_value(FUSED_BEHIND)])
    ]
    return [note(OTHER_FUSIONS, listed(apart, _SHOWN))] if apart else []


def _golden_of_other_steps(run: Run) -> List[Note]:
    """Say it where the golden data of other steps fit the dumps of steps whose own do not."""
    fits: Dict[str, str] = {}
    tensors = 0
    tried = 0
    for place in run.store.places():
        if place.step is None or place.step in fits:
            continue
        failing = sorted(run.store.rows(place=place, verdict=FAIL), key=execution_key)
        failing = [row for row in failing if row.kind == OUTPUT][:_STEP_TENSORS]
        if not failing or tried == _STEPS_TRIED or run.goldens.kind == "npu":
            continue
        tried += 1
        for step, golden in _golden_of_steps(run, place):
            fitting = _fitting(run, place, golden, failing)
            if fitting:
                fits[place.step], tensors = step, max(tensors, fitting)
                break
    if not fits:
        return []
    pairs = ["those of step %s fit the dumps of step %s" % (fits[own], own) for own in fits]
    return [note(OTHER_STEPS, listed(pairs, _STEPS_SHOWN), plural(tensors, "tensor"))]


def _golden_of_one_step(run: Run) -> List[Note]:
    """Ask whether golden data that are for all steps are of one: where all outputs are within their
    limits in that one, and in each other the first of all is outside them.
    """
    places = [place for place in run.store.places() if place.step is not None]
    steps = sorted({place.step or "" for place in places}, key=name_order)
    if len(steps) < 2 or run.goldens.takes_steps_apart or run.goldens.kind == "npu":
        return []
    passing, begins = set(steps), set(steps)
    for place in places:
        outputs = [
            row
            for row in run.store.rows(place=place)
            if row.kind == OUTPUT and row.verdict in (PASS, FAIL)
        ]
        first = min(outputs, key=execution_key, default=None)
        if any(row.verdict == FAIL for row in outputs) or first is None:
            passing.discard(place.step or "")
        if first is None or first.verdict != FAIL:
            begins.discard(place.step or "")
    if len(passing) != 1 or begins | passing != {*steps}:
        return []
    return [
        note(OF_ONE_STEP, *passing, _word(sorted(begins)), shown(sorted(begins, key=name_order)))
    ]


def _golden_of_steps(run: Run, place: Place) -> Iterator[Tuple[str, GoldenSet]]:
    """Yield the golden data of the steps nearest to that of a place: those of GOLDEN, or where it
    is the folder of one step, those beside it.
    """
    own, folder = place.step or "", os.path.abspath(run.goldens.folder)
    names: Sequence[str] = run.goldens.step_names if run.goldens.takes_steps_apart else ()
    if not names and is_number(os.path.basename(folder)):
        own, folder = os.path.basename(folder), os.path.dirname(folder)
        names = [name for name in list_folder(folder).folders if is_number(name)]
    ordered = sorted(names, key=name_order)
    at = len([name for name in ordered if name_order(name) < name_order(own)])
    near = sorted(range(len(ordered)), key=lambda number: abs(number - at))
    for step in [ordered[number] for number in near if ordered[number] != own][:_STEPS_TRIED]:
        yield (
            step,
            run.goldens.of(place._replace(step=step))
            if run.goldens.takes_steps_apart
            else GoldenSet(os.path.join(folder, step)),
        )


def _fitting(run: Run, place: Place, golden: GoldenSet, failing: List[Row]) -> int:
    """Return how many outputs of a place that are outside their limits are within them beside the
    golden data of another step, where the first one is, others are, and of those that were within
    them none is outside: an operator that kept its output of another step would not do that.
    """
    fit = []
    for row in failing:
        verdict = _verdict_in_step(run, row, golden)
        fit += [verdict] if verdict else []
        if fit[:1] not in ([], [PASS]):
            return 0
    if fit.count(PASS) < min(2, len(failing)):
        return 0
    passing = [
        row
        for row in run.store.rows(place=place, verdict=PASS)
        if row.kind == OUTPUT and row.metrics
    ]
    some = passing[:: max(1, len(passing) // _STEP_TENSORS)][:_STEP_TENSORS]
    return 0 if FAIL in [_verdict_in_step(run, row, golden) for row in some] else fit.count(PASS)


def _verdict_in_step(run: Run, row: Row, other: GoldenSet) -> str:
    """Return the verdict on an output beside its golden tensor in other golden data; empty where
    these have none.
    """
    try:
        task = _task_of(run, row)
        golden = (
            None
            if task is None
            else other.find(
                task.golden.original or task.golden.op_name, task.golden.index, task.golden.io
            )
        )
    except (GoldwatchError, OSError):
        return ""
    return "" if golden is None else _verdict_beside(run, row, golden)


def _verdict_beside(run: Run, row: Row, golden: GoldenEntry) -> str:
    """Return the verdict on an output beside another golden tensor; empty where there is none."""
    from ..metrics.compare_pair import compare_pair

    try:
        task = _task_of(run, row)
        if task is None:
            return ""
        now = compare_pair(replace(task, golden=golden), run.options.settings())
    except (GoldwatchError, OSError):
        return ""
    return now.verdict if now.verdict in (PASS, FAIL) else ""


def _task_of(run: Run, row: Row) -> Optional[PairTask]:
    from .tensor_reader import RunReader

    if not isinstance(run.reader, RunReader):
        return None
    return run.reader.task(row.target_file or "", row.tensor)


def of_other_original(rows: Iterable[Row], graph: ModelGraph, model: str) -> List[Note]:
    """Return a note where the om that is replayed was compiled from another file, and no operator
    with weights computes what the model says: two names of one model are no reason.
    """
    from ..judging.diagnosis.parameters_of_another_model import LINEAR
    from ..judging.diagnosis.replay_summary import OTHER_MODEL

    if graph.compiled_from in ("", model):
        return []
    with_weights = [row for row in rows if row.kind == "output" and row.op_type.lower() in LINEAR]
    all_fail = all(row.verdict == FAIL for row in with_weights)
    if not all_fail or len({row.op for row in with_weights}) < 2:
        return []
    return [note(OTHER_MODEL, model, printable(graph.name), graph.compiled_from)]


def _no_weights_fit(run: Run, place: Place) -> bool:
    from ..judging.by_recomputation import RIGHT
    from ..judging.diagnosis.parameters_of_another_model import LINEAR

    rows = [
        row
        for row in run.store.rows(place=place)
        if row.kind == "output" and row.op_type.lower() in LINEAR
    ]
    ops = {row.op for row in rows}
    recomputation = run.recomputation()
    # Without the original model operators are right by the weights of their own dumps.
    right = recomputation.nodes is not None and any(
        at == place and op in ops and verdict.state == RIGHT
        for (at, op, _), verdict in recomputation.verdicts().items()
    )
    differ = [row.verdict == FAIL or row.cause == "shape" for row in rows]
    return len(ops) > 1 and not right and all(differ)


def _word(steps: List[str]) -> str:
    return "step" if len(steps) == 1 else "steps"


def steps_without_golden(run: Run) -> List[str]:
    """Return the dumped steps that GOLDEN has no data of, in the order of numbers, where each step
    has its own.
    """
    places = (place for place in run.engine.places if run.engine.places.is_modelled(place))
    steps = {place.step for place in places if run.goldens.lacks(place)}
    return sorted((step for step in steps if step is not None), key=name_order)


def shown(names: List[str]) -> str:
    """Return the first of some steps as a list, and how many more there are."""
    return listed(names, _STEPS_SHOWN)


def _without_golden(run: Run) -> List[Note]:
    """Name the golden names that are nearest to the first ops without golden data."""
    warnings: List[Note] = []
    unmatched_rows = [
        row for row in run.store.rows("index", verdict=NOT_COMPARED) if row.cause == GOLDEN_MISSING
    ]
    for row in unmatched_rows[:_SHOWN]:
        near = run.goldens.every.nearest(row.golden.split(",")[-1] if row.golden != "*" else row.op)
        if near:
            warnings.append(note("unmatched", row.tensor, ", ".join(near)))
    if unmatched_rows and not warnings:
        names = sorted(run.goldens.every.op_names())[:_SHOWN]
        warnings.append(
            note(
                "nothing-matched",
                "for example " + ", ".join(names) if names else "no golden data",
            )
        )
    return warnings
