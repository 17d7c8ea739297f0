"""What locate is asked for, and what is decided before anything runs: programs, runs of the om with
their inputs, and all that is missing.
"""

from __future__ import annotations

import os
from dataclasses import field
from typing import List, NamedTuple, Optional, Sequence, Type

from ...base.errors import GoldwatchError, InputError, MissingPath, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable
from ...base.notes import Note
from ...model.om_interface import OmInterface
from ..launch.atc import Atc
from ..launch.runners import PROGRAM, Runner
from .input_pairs import InputPair, Paired, shown_model
from .original_model import OriginalModel
from .shape_combinations import Shapes, shapes_text

OTHER_OM = "json-of-another-om"
"""Code of the note that the json that was given names another om."""


@dataclass(frozen=True)
class Request:
    """What the user asks for.

    Attributes
    ----------
    model, om
        The original model (or a second om) and the om, or the om's json where a program is given.
    out
        The folder for all that is made.
    inputs
        ``NAME=FILE``.
    om_json
        The om's json, where it is not to be made with atc.
    shapes
        Of a dynamic om the shapes to try (:func:`.shape_combinations.parse_shapes`).
    runner
        The runner that is to be taken; None: the first that is there.
    words
        A program of the user's own, with ``{om}`` and so on in its words.
    python, runner_python
        The Python that has the framework, and the one that has the runner; None: they are looked
        for.
    keep
        Which dumps stay after their comparison.
    strict
        An operator that is suspect makes the search fail, though everything passes.
    golden
        Golden data of the very inputs; None: they are made.
    converting
        Options that convert the model, or a part of it, again: ``--narrow``, ``--cure``.
    """

    model: str
    om: str
    out: str
    inputs: Sequence[str] = ()
    weights: Optional[str] = None
    om_json: Optional[str] = None
    seed: int = 0
    shapes: Optional[str] = None
    device: int = 0
    runner: Optional[str] = None
    words: Sequence[str] = ()
    python: Optional[str] = None
    runner_python: Optional[str] = None
    atc: Optional[str] = None
    keep: str = "failed"
    strict: bool = False
    golden: Optional[str] = None
    converting: Sequence[str] = ()


class Problem(NamedTuple):
    """Something that is missing or wrong, and what to do; ``is_usage``: an option's value is."""

    message: str
    hint: Optional[str] = None
    is_usage: bool = False

    @property
    def text(self) -> str:
        """Both in one sentence."""
        return self.message if not self.hint else "%s (%s)" % (self.message, self.hint)


@dataclass
class OmRun:
    """One run: of a dynamic om one of several.

    Attributes
    ----------
    shapes
        What ``--shapes`` says of it.
    name
        Of its folder below OUT; empty where it is the only one.
    """

    shapes: Shapes
    name: str
    paired: Paired

    @property
    def pairs(self) -> List[InputPair]:
        """Its inputs, in the om's order."""
        return self.paired.pairs


@dataclass
class Plan:
    """What is decided.

    Attributes
    ----------
    atc
        None where there is none, or none is needed.
    made_json
        Whether atc makes the om's json, and nobody gave it.
    interface, golden_om
        What the json of the om says; of a second om the same of it.
    golden_python
        The Python that has the framework, where another than the running one.
    framework
        What makes the golden data, for people.
    """

    request: Request
    original: Optional[OriginalModel] = None
    atc: Optional[Atc] = None
    made_json: bool = False
    interface: Optional[OmInterface] = None
    golden_om: Optional[OmInterface] = None
    runner: Optional[Runner] = None
    golden_python: Optional[str] = None
    framework: str = ""
    runs: List[OmRun] = field(default_factory=list)
    problems: List[Problem] = field(default_factory=list)
    notes: List[Note] = field(default_factory=list)
    dump: str = ""
    time: str = ""

    def lines(self) -> List[str]:
        """Return the plan for people."""
        request = self.request
        lines = []
        if self.original is not None:
            lines.append("model    %s (%s)" % (request.model, self.original.framework))
        if self.framework:
            lines.append("golden   %s" % self.framework)
        if self.interface is not None:
            chip = (
                ", made for %s" % self.interface.soc_version if self.interface.soc_version else ""
            )
            made = " by %s" % self.atc.path if self.atc is not None and self.made_json else ""
            lines.append(
                "om       %s%s; its json: %s%s" % (request.om, chip, self.interface.path, made)
            )
        if self.runner is not None:
            shown = (
                " ".join(self.runner.words)
                if self.runner.name == PROGRAM
                else "%s of %s" % (self.runner.name, self.runner.where)
            )
            lines.append("runner   %s, device %d" % (printable(shown), request.device))
        for case in self.runs:
            lines.append(
                "inputs   %s" % (shapes_text(case.shapes) if case.shapes else "model | om | values")
            )
            lines += ["  " + _input_line(pair, request.seed) for pair in case.pairs]
        if self.dump:
            lines.append("dump     %s" % self.dump)
        if self.time:
            lines.append("time     %s" % self.time)
        return lines + ["note: " + note for note in self.notes]

    def refuse(self, already_said: bool = False) -> None:
        """Raise InputError where anything is missing or wrong, UsageError where values of options
        alone are; ``already_said``: each was said already.
        """
        is_usage = all(problem.is_usage for problem in self.problems)
        kind: Type[GoldwatchError] = UsageError if is_usage else InputError
        if len(self.problems) == 1:
            raise kind(self.problems[0].message, hint=self.problems[0].hint)
        if self.problems:
            texts = [
                "%d) %s" % (number, problem.text) for number, problem in enumerate(self.problems, 1)
            ]
            message = "nothing was started: %d things are missing or wrong" % len(texts)
            raise kind(message + ("" if already_said else ": " + "; ".join(texts)))


def _input_line(pair: InputPair, seed: int) -> str:
    values = pair.file if pair.file is not None else "random (seed %d)" % seed
    layout = " " + pair.om.layout if len(pair.om_shape) == 4 else ""
    name = (
        pair.model.name
        if pair.model.name == pair.om.name
        else "%s (om: %s)" % (pair.model.name, pair.om.name)
    )
    om = (
        "%s %s%s" % (pair.om.dtype, list(pair.om_shape), layout)
        if pair.image is None
        else "image %s" % pair.image
    )
    extra = "; ".join(pair.notes) if pair.image is None else ""
    return "%s: %s | %s | %s%s" % (
        printable(name),
        shown_model(pair.model),
        om,
        printable(values),
        "; " + extra if extra else "",
    )


def out_of(om: str) -> str:
    """Return the folder that is taken where the user names none: beside nothing of hers, in the
    current folder.
    """
    stem = os.path.splitext(os.path.basename(om))[0] or "model"
    return stem + "_located"


def require_place(out: str) -> None:
    """Raise MissingPath unless OUT can be a folder."""
    if os.path.lexists(out) and not os.path.isdir(out):
        raise MissingPath("-o: %s is not a folder" % out, hint="name a folder, existing or new")
