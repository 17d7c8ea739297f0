"""The runs of an om with their inputs: one, or of a dynamic om one for each gear or for each of the
requested shapes.
"""

from __future__ import annotations

import os
from typing import Dict, List, Mapping, Sequence, Tuple

from ...base.element_types import BY_NAME, element_count
from ...base.errors import GoldwatchError
from ...base.notes import note
from ...base.wording import listed, plural
from ...dumps.npy import load_npy_header
from ...model.atc_options import SHAPE, Dynamic
from ...model.om_interface import OmInput, OmInterface
from .input_pairs import Paired, couple_inputs, fitting_orders, pair_inputs
from .original_model import ModelInput, OriginalModel
from .plan import OmRun, Plan, Problem
from .shape_combinations import Shape, Shapes, folder_name, shapes_text


def add_runs(
    plan: Plan,
    original: OriginalModel,
    interface: OmInterface,
    files: Mapping[str, str],
    combinations: Sequence[Shapes],
) -> None:
    """Add the runs to a plan: the requested ones, of a dynamic om those that the given files fit or
    each gear, or the only one.
    """
    before = len(plan.problems)
    chosen = _chosen_shapes(plan, original, interface, files, combinations)
    if not chosen and len(plan.problems) > before:
        return
    if plan.request.golden is not None:
        missing = [each.name for each in original.inputs if each.name not in files]
        if missing or len(chosen) > 1:
            problem = "that of %s is missing" % listed(missing, 4) if missing else "of one shape"
            plan.problems.append(
                Problem(
                    "--golden: golden data are of one run: give the very inputs, %s" % problem,
                    "-i NAME=FILE",
                )
            )
    names = [folder_name(shapes) for shapes in chosen]
    for number, shapes in enumerate(chosen or [{}]):
        paired = pair_inputs(original, interface.inputs, files, shapes)
        name = names[number] if len(chosen) > 1 else ""
        if name and names.index(name) != number:
            name = "%s_%d" % (name, number)
        plan.runs.append(OmRun(dict(shapes), name, paired))
    texts = [
        text for case in plan.runs for text in [*case.paired.wrong_shapes, *case.paired.problems]
    ]
    of_shapes = {text for case in plan.runs for text in case.paired.wrong_shapes}
    hints = {text: hint for case in plan.runs for text, hint in case.paired.hints.items()}
    plan.problems += [
        Problem(text, hints.get(text), text in of_shapes) for text in dict.fromkeys(texts)
    ]
    plan.notes += dict.fromkeys(text for case in plan.runs for text in case.paired.notes)


def _chosen_shapes(
    plan: Plan,
    original: OriginalModel,
    interface: OmInterface,
    files: Mapping[str, str],
    combinations: Sequence[Shapes],
) -> List[Shapes]:
    dynamic = interface.dynamic
    chosen: List[Shapes] = list(combinations)
    if dynamic is not None and (dynamic.kind == SHAPE or not chosen):
        given = _shapes_of_files(original, interface, dynamic, files)
        if dynamic.kind != SHAPE:
            chosen = _gears_to_run(plan, dynamic, given)
        else:
            of_files = {name: orders[0] for name, orders in given.items()}
            chosen = [dict(of_files, **shapes) for shapes in chosen or [{}]]
    if dynamic is not None and dynamic.kind != SHAPE:
        known = {name: dynamic.shapes.get(name) for shapes in chosen for name in shapes}
        for shapes in chosen:
            if dynamic.gear_of(shapes) is None and all(
                shape is not None for shape in known.values()
            ):
                plan.problems.append(
                    Problem(
                        "the om has no gear of %s" % shapes_text(shapes),
                        "its gears: %s" % _gears(dynamic.gears),
                        is_usage=True,
                    )
                )
    if dynamic is None and chosen:
        for shapes in chosen[:1]:
            plan.notes.append(note("fixed-shapes", shapes_text(shapes)))
    return chosen


def _gears(gears: Sequence[Tuple[int, ...]]) -> str:
    return listed([",".join(map(str, gear)) for gear in gears], 8, "; ")


def _gears_to_run(plan: Plan, dynamic: Dynamic, given: Mapping[str, List[Shape]]) -> List[Shapes]:
    """Return the gears that the files fit, all where no file of a dynamic input is given; none,
    and a problem, where no gear fits them.
    """
    gears = [
        {
            name: shape
            for name, shape in dynamic.shapes_in_gear(gear).items()
            if -1 in dynamic.shapes[name]
        }
        for gear in dynamic.gears
    ]
    fitting = [
        gear for gear in gears if all(gear[name] in orders for name, orders in given.items())
    ]
    if not fitting:
        files = ["%s of %s" % (list(orders[-1]), name) for name, orders in given.items() if orders]
        raw = [name for name, orders in given.items() if not orders]
        plan.problems.append(
            Problem(
                "the om has no gear of the given file's shape: %s" % listed(files, 4)
                if not raw
                else "the size of the raw file of %s fits no gear of the om" % listed(raw, 4),
                "its gears: %s" % listed([shapes_text(gear) for gear in gears], 8, " | "),
            )
        )
        return []
    count = plural(len(gears), "gear")
    run = "each of its %s is run" % count
    if len(fitting) < len(gears):
        shapes = listed([shapes_text(gear) for gear in fitting], 4, " | ")
        run = "the given files fit %s of its %s" % (shapes, count)
    plan.notes.append(note("gears-to-run", dynamic.kind, run))
    return fitting


def _shapes_of_files(
    original: OriginalModel, interface: OmInterface, dynamic: Dynamic, files: Mapping[str, str]
) -> Dict[str, List[Shape]]:
    """Return the shapes that the files of dynamic inputs may have, by the om's names: of an .npy
    every order of the axes that fits the om, the file's own last where none does; of a raw file
    those that have its size, which may be none.
    """
    shapes: Dict[str, List[Shape]] = {}
    for model, om in couple_inputs(original, interface.inputs, files, Paired()) or ():
        file = files.get(model.name, files.get(om.name, ""))
        declared = dynamic.shapes.get(om.name, om.shape)
        if om.aipp or -1 not in declared or not os.path.isfile(file):
            continue
        if not file.endswith(".npy"):
            raw = _shapes_of_size(os.path.getsize(file), model, om, dynamic)
            if dynamic.kind != SHAPE or len(raw) == 1:
                shapes[om.name] = raw
            continue
        try:
            header = load_npy_header(file)
        except GoldwatchError:
            continue  # Reading its values tells why.
        if header.error is None:
            shapes[om.name] = fitting_orders(header.shape, declared) or [header.shape]
    return shapes


def _shapes_of_size(size: int, model: ModelInput, om: OmInput, dynamic: Dynamic) -> List[Shape]:
    """Return the shapes of the om's input that a raw file of ``size`` bytes may have, in the om's
    type or the model's: of the gears, or, where one dim is open, with what is left for that dim.
    """
    item_bits = {BY_NAME[dtype].bits for dtype in (om.dtype, model.dtype) if dtype in BY_NAME}
    if dynamic.kind != SHAPE:
        every = [dynamic.shapes_in_gear(gear).get(om.name, om.shape) for gear in dynamic.gears]
        return [
            shape
            for shape in dict.fromkeys(every)
            if size * 8 in [element_count(shape) * bits for bits in item_bits]
        ]
    declared = dynamic.shapes.get(om.name, om.shape)
    found = []
    for bits in sorted(item_bits) if tuple(declared).count(-1) == 1 else ():
        rest = element_count([dim for dim in declared if dim != -1]) * bits
        if rest and size and not size * 8 % rest:
            found.append(tuple(size * 8 // rest if dim == -1 else dim for dim in declared))
    return found
