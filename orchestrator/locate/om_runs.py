"""The runs of an om with their inputs: one, or of a dynamic om one for each gear or for each of the
requested shapes.
"""

from __future__ import annotations

from typing import List, Mapping, Sequence, Tuple

from ..model.atc_options import SHAPE
from ..model.om_interface import OmInterface
from ..text.wording import listed, plural
from .input_pairs import pair_inputs
from .original_model import OriginalModel
from .plan import OmRun, Plan, Problem
from .shape_combinations import Shapes, folder_name, shapes_text


def add_runs(
    plan: Plan,
    original: OriginalModel,
    interface: OmInterface,
    files: Mapping[str, str],
    combinations: Sequence[Shapes],
) -> None:
    """Add the runs to a plan: the requested ones, each gear of a dynamic om, or the only one."""
    chosen = _chosen_shapes(plan, interface, combinations)
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
    plan.problems += [Problem(text, is_usage=text in of_shapes) for text in dict.fromkeys(texts)]
    plan.notes += dict.fromkeys(text for case in plan.runs for text in case.paired.notes)


def _chosen_shapes(
    plan: Plan, interface: OmInterface, combinations: Sequence[Shapes]
) -> List[Shapes]:
    dynamic = interface.dynamic
    chosen: List[Shapes] = list(combinations)
    if dynamic is not None and not chosen and dynamic.kind != SHAPE:
        chosen = [
            {
                name: shape
                for name, shape in dynamic.shapes_in_gear(gear).items()
                if -1 in dynamic.shapes[name]
            }
            for gear in dynamic.gears
        ]
        plan.notes.append(
            "the om's %s is dynamic: each of its %s is run; --shapes chooses"
            % (dynamic.kind, plural(len(chosen), "gear"))
        )
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
            plan.notes.append(
                "the om's shapes are fixed: --shapes %s must be just these" % shapes_text(shapes)
            )
    return chosen


def _gears(gears: Sequence[Tuple[int, ...]]) -> str:
    return listed([",".join(map(str, gear)) for gear in gears], 8, "; ")
