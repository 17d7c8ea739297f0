"""What did not find its counterpart at large: another model's json, the golden data of another network, steps without golden data."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Dict, List

from ..comparing.row import FAIL, GOLDEN_MISSING, NOT_COMPARED, PASS
from ..dumps.listing import misnamed_notes
from ..dumps.place import name_order
from ..model.gears import gear_named, gear_of
from ..model.graph import ModelGraph
from ..naming import nearest_names
from ..wording import listed

if TYPE_CHECKING:
    from .comparison import Run

_SHOWN = 3
_GEARS = (
    "dumps of several gears are there (%s): golden data of one input shape fit one of them; "
    "give those of each step below GOLDEN/{step}/"
)
_STEPS_SHOWN = 8


def unmatched(run: Run) -> List[str]:
    """Say it, a sentence each, where the dumped ops are not the model's, golden data lack steps, or nothing has golden data at all."""
    counts = run.store.counted.all()
    misnamed = misnamed_notes([path for path in sorted(run.goldens.misnamed) if os.path.lexists(path)])
    said = [*_of_another_model(run), *_steps(run), *_gears(run), *misnamed]
    if counts.get(PASS) or counts.get(FAIL) or run.engine.progress.pairs:
        return said
    return said + _without_golden(run)


def _of_another_model(run: Run) -> List[str]:
    dumped: Dict[ModelGraph, Dict[str, bool]] = {}
    folder, names = None, None
    for file in run.catalogue.files.each():
        # A folder's files follow one another.
        if file.folder is not folder:
            folder, graph = file.folder, run.graphs.of(file.place.model)
            names = dumped.setdefault(graph, {}) if graph is not None else None
        if names is not None and file.op_name not in names:
            names[file.op_name] = run.engine.places.planner(file.place).knows(file.op_name)
    return [text for graph, names in dumped.items() for text in _unknown_ops(graph, names)]


def _unknown_ops(graph: ModelGraph, names: Dict[str, bool]) -> List[str]:
    unknown = [name for name, known in names.items() if not known]
    if 2 * len(unknown) <= len(names):
        return []
    none = "none of TARGET's ops is" if len(unknown) == len(names) else "%d of TARGET's %d ops are not" % (len(unknown), len(names))
    said = "%s in %s: is it the json of the model that was dumped?" % (none, graph.path)
    near = nearest_names(unknown[0], (op.name for op in graph.ops), _SHOWN)
    return [said + (" (%s; the model has %s)" % (unknown[0], ", ".join(near)) if near else " (%s is not)" % unknown[0])]


def _steps(run: Run) -> List[str]:
    without, names = steps_without_golden(run), run.goldens.step_names
    said = []
    if without:
        text = "GOLDEN's folders are steps (%s): there is none for %s %s, and no row"
        said.append(text % (shown(names) or "none", _word(without), shown(without)))
    never = _steps_without_dump(run, names)
    if never:
        said.append("GOLDEN has data of %s %s, of which TARGET holds no dump" % (_word(never), shown(never)))
    return said


def _steps_without_dump(run: Run, names: List[str]) -> List[str]:
    """Return the steps of GOLDEN that were not dumped; none where TARGET is the folder of a single step."""
    if not names or not run.goldens.takes_steps_apart:
        return []
    folders = {file.folder for file in run.catalogue.files.each()}
    dumped = {folder.place.step for folder in folders}
    return [name for name in names if name not in dumped] if any(folder.rel for folder in folders) else []


def _gears(run: Run) -> List[str]:
    """Say which gears of a model ran where, if golden data of one input shape are for several."""
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
    return [_GEARS % "; ".join("%s in %s" % pair for pair in gears.items()) for gears in several]


def _word(steps: List[str]) -> str:
    return "step" if len(steps) == 1 else "steps"


def steps_without_golden(run: Run) -> List[str]:
    """Return the dumped steps that GOLDEN has no data of, in the order of numbers, where each step has its own."""
    places = (place for place in run.engine.places if run.engine.places.is_modelled(place))
    found = {place.step for place in places if run.goldens.lacks(place)}
    return sorted((step for step in found if step is not None), key=name_order)


def shown(names: List[str]) -> str:
    """Return the first of some steps as a list, and how many more there are."""
    return listed(names, _STEPS_SHOWN)


def _without_golden(run: Run) -> List[str]:
    """Name the golden names that are nearest to the first ops without golden data."""
    said: List[str] = []
    wanted = [row for row in run.store.rows("index", verdict=NOT_COMPARED) if row.cause == GOLDEN_MISSING]
    for row in wanted[:_SHOWN]:
        near = run.goldens.every.nearest(row.golden.split(",")[-1] if row.golden != "*" else row.op)
        if near:
            said.append("no golden data matched %s; the nearest golden names are %s" % (row.tensor, ", ".join(near)))
    if wanted and not said:
        names = sorted(run.goldens.every.op_names())[:_SHOWN]
        said.append("no golden data matched any op; GOLDEN holds %s" % ("for example " + ", ".join(names) if names else "no golden data"))
    return said
