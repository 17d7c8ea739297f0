"""The culprit's part of the model, cut out, converted, run and judged, smaller and smaller, until
no smaller part fails.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ...base.errors import EXIT_FAIL, EXIT_INCOMPLETE, EXIT_PASS, InputError
from ...base.fast_dataclasses import dataclass
from ...base.notes import Note, note
from ...base.safe_reading import read_input
from ...recomputing.submodel.export_document import FILE
from ...schemas.documents import read_document
from ..launch.atc import Atc
from .original_model import CAFFE
from .resumable_steps import Step
from .search import DECIDED, DUMP, RUN, CaseResult, Search

MOST_CUTS = 64
"""Halving a network of any size takes fewer."""

CUT, LOCATED = "cut", "located"
_LIMIT_BYTES = 256 << 20
_CONSTANTS = ("Const", "Constant")
_NOT_COMPUTED = frozenset([*_CONSTANTS, "Input", "Placeholder"])
_FOLDER = re.compile(r"dump_result_[0-9_]+\Z")
_JUDGED = (EXIT_PASS, EXIT_FAIL, EXIT_INCOMPLETE)
# What belongs to the whole model; all else decides how operators compute, and is kept.
_OF_THE_MODEL = frozenset(
    [
        "mode", "model", "weight", "om", "json", "output", "output_type", "framework",
        "input_format", "input_shape", "input_shape_range",
        "dynamic_batch_size", "dynamic_image_size", "dynamic_dims", "dynamic_shape",
        "input_fp16_nodes", "out_nodes", "insert_op_conf",
        "is_input_adjust_hw_layout", "is_output_adjust_hw_layout", "singleop",
        "save_original_model", "log", "dump_mode",
        "display_model_info", "op_name_map", "shape_generalized_build_mode", "host_env_os",
        "host_env_cpu",
    ]
)  # fmt: skip
_FILES = frozenset(
    [
        "keep_dtype", "customize_dtypes", "modify_mixlist", "op_precision_mode",
        "fusion_switch_file", "compression_optimize_conf",
        "op_debug_config", "aoe_config_file",
    ]
)  # fmt: skip


@dataclass(frozen=True)
class Narrowed:
    """One cut that was run on the device.

    Attributes
    ----------
    folder
        Of the export, with submodel.json in it.
    located
        Of its own search.
    layers
        The names of what it computes; constants do not count.
    options
        Those of atc that it was converted with.
    code
        What its run came to: 1 where it fails alone.
    whole
        Whether it is the whole model, converted anew.
    """

    folder: str
    located: str
    layers: Sequence[str]
    options: Mapping[str, str]
    code: int
    whole: bool = False


def conversion_options(options: Mapping[str, str]) -> Tuple[Dict[str, str], List[Note]]:
    """Return those of atc's options that decide how operators compute, and what is to be said of
    files that are not here.
    """
    taken_over, warnings = {}, []
    for name, value in options.items():
        text = value.strip("\"'")
        if name in _OF_THE_MODEL:
            continue
        if name in _FILES and not os.path.isfile(text):
            warnings.append(note("no-file-of-atc", name, text))
            continue
        taken_over[name] = text
    return taken_over, warnings


class Narrowing:
    """The cuts of one failing run.

    Parameters
    ----------
    search, result
        The run that failed.
    options
        Options that the user gave ``locate`` and that each cut needs, too.
    """

    def __init__(self, search: Search, result: CaseResult, options: Sequence[str]) -> None:
        plan = search.plan
        assert plan.original is not None and plan.interface is not None and plan.atc is not None
        self._atc: Atc = plan.atc
        self._search, self._result, self._options = search, result, list(options)
        self._original, self._interface = plan.original, plan.interface
        self._folder = os.path.join(result.folder, "narrow")

    def cuts(self) -> List[Narrowed]:
        """Make and run all cuts; return those that were run, in order."""
        cuts: List[Narrowed] = []
        for number in range(1, MOST_CUTS + 1):
            export = self._cut(number, cuts[-1] if cuts else None)
            if export is None:
                break
            cuts.append(self._run(number, export))
            if cuts[-1].code == EXIT_INCOMPLETE:
                self._search.say(note("incomplete-cut", export))
                break
        return cuts

    def _cut(self, number: int, previous: Optional[Narrowed]) -> Optional[str]:
        """Cut out the next part; return its folder, None where there is no smaller one."""
        out = os.path.join(self._folder, str(number))
        command = ["goldwatch", "submodel", self._original.path]
        if previous is None:
            command += ["--from-result", os.path.join(self._result.folder, RUN)]
        else:
            command += [
                "--narrow",
                previous.folder,
                "--result",
                os.path.join(previous.located, RUN),
            ]
        command += ["--weights", self._original.weights] if self._original.weights else []
        command += ["--om", self._interface.path, "--dump", os.path.join(self._result.folder, DUMP)]
        command += ["--golden", self._search.golden(self._result.case), "-o", out]

        def does(began: bool) -> int:
            os.makedirs(out, exist_ok=True)
            return self._search.execute(command[1:])

        # The search for a smaller part goes on in the order in which it went before.
        before = os.path.join(
            self._result.folder if previous is None else previous.located, RUN, "result.json"
        )
        step = Step(
            self._name(number, CUT),
            does,
            command,
            {},
            {"what the run found": before},
            [out],
            lambda code: code in _JUDGED,
        )
        self._search.steps.run(step)
        return export_in(out)

    def _run(self, number: int, export: str) -> Narrowed:
        document = read_export(export)
        om, located = (
            os.path.join(export, "dump.om"),
            os.path.join(os.path.dirname(export), LOCATED),
        )
        model = os.path.join(export, self._model_file(document))
        options = self._convert(number, export, om, model, document)
        words = [
            "goldwatch",
            "locate",
            model,
            om,
            *self._inputs(document, export),
            *self._options,
            "-o",
            located,
        ]
        words += ["--", *self._search.plan.request.words] if self._search.plan.request.words else []

        def locates(began: bool) -> int:
            return self._search.execute(words[1:])

        files = {"the cut's om": om}
        step = Step(
            self._name(number, LOCATED),
            locates,
            words,
            {},
            files,
            [],
            lambda code: code in DECIDED,
            on_device=True,
            needs=[located],
        )
        code = self._search.steps.run(step)
        if code not in _JUDGED:
            raise InputError(
                "the run of the cut %s failed (exit code %d)" % (export, code),
                hint="the same command goes on with it",
            )
        computing = [
            str(layer["name"]) for layer in document["layers"] if layer["type"] not in _CONSTANTS
        ]
        whole = code == EXIT_PASS and set(computing) >= self._computing()
        return Narrowed(export, located, computing, options, code, whole)

    def _computing(self) -> Set[str]:
        """Return the names of what the whole model computes."""
        from ...recomputing.original_cuts import Original

        model = Original(self._original.path).model
        return {name for name, kind in zip(model.names, model.types) if kind not in _NOT_COMPUTED}

    def _convert(
        self, number: int, export: str, om: str, model: str, document: Mapping[str, Any]
    ) -> Dict[str, str]:
        """Convert the model of an export into an om; return the options of atc."""
        taken_over, warnings = conversion_options(self._interface.options)
        for text in warnings if number == 1 else ():
            self._search.say(text)
        options = self._conversion(document, export)
        options.update({name: value for name, value in taken_over.items() if name not in options})
        options["soc_version"] = self._interface.soc_version

        def converts(began: bool) -> int:
            if not self._interface.soc_version:
                raise InputError(
                    "the om's json does not tell for which chip it was made (soc_version)"
                )
            made = self._atc.convert(options, om)
            if os.path.realpath(made) != os.path.realpath(om):
                os.rename(made, om)
            return EXIT_PASS

        command = self._atc.convert_command(options, om)
        self._search.steps.run(
            Step(
                self._name(number, "convert"), converts, command, options, {"the cut": model}, [om]
            )
        )
        return options

    def _conversion(self, document: Mapping[str, Any], export: str) -> Dict[str, str]:
        """Return the options of the export's own atc command, with paths that lead there."""
        options: Dict[str, str] = {}
        for word in document["next"]["atc"][1:]:
            name, _, value = str(word)[2:].partition("=")
            if name in ("model", "weight"):
                value = os.path.join(export, value)
            if name not in ("output", "soc_version"):
                options[name] = value
        return options

    def _inputs(self, document: Mapping[str, Any], export: str) -> List[str]:
        words = []
        for entry in document["inputs"]:
            if entry["npy"] is None:
                raise InputError(
                    "%s: no values of its input %s are known" % (export, entry["name"])
                )
            name = entry["tensor"] if self._original.kind == CAFFE else entry["name"]
            words += ["-i", "%s=%s" % (name, os.path.join(export, entry["npy"]))]
        return words

    def _model_file(self, document: Mapping[str, Any]) -> str:
        return next(
            str(word)[len("--model=") :]
            for word in document["next"]["atc"]
            if str(word).startswith("--model=")
        )

    def _name(self, number: int, step: str) -> str:
        name = "narrow/%d/%s" % (number, step)
        return "%s/%s" % (self._result.case.name, name) if self._result.case.name else name


def smallest_failing(cuts: Sequence[Narrowed]) -> Optional[Narrowed]:
    """Return the failing cut that computes the least; None where none fails alone."""
    failing = [cut for cut in cuts if cut.code == EXIT_FAIL]
    return min(failing, key=lambda cut: len(cut.layers)) if failing else None


def read_export(folder: str) -> Dict[str, Any]:
    """Return the document of an export's submodel.json."""
    path = os.path.join(folder, FILE)
    document: Dict[str, Any] = read_document(read_input(path, _LIMIT_BYTES), "submodel", path)
    return document


def export_in(out: str) -> Optional[str]:
    """Return the export in a folder; None where there is none."""
    names = (
        [name for name in sorted(os.listdir(out)) if _FOLDER.match(name)]
        if os.path.isdir(out)
        else []
    )
    return os.path.join(out, names[-1]) if names else None
