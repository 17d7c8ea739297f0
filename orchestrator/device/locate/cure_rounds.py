"""Operators raised to float32, the model converted again, run and judged, until it passes or
nothing is left to raise.
"""

from __future__ import annotations

import json
import os
import shlex
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...base.errors import EXIT_FAIL, EXIT_INCOMPLETE, EXIT_PASS, InputError
from ...base.fast_dataclasses import dataclass
from ...base.safe_reading import read_input
from ...metrics.row import PASS
from ...model.atc_options import atc_options
from ..cure.run import DOCUMENT
from ..launch.atc import Atc
from .input_values import input_files
from .resumable_steps import Step
from .search import DECIDED, INPUTS, JSON, RUN, CaseResult, Search, stored_outputs
from .shape_combinations import shapes_text

MOST_ROUNDS = 10
"""Each raises more than the one before; networks in trials needed two at most."""

_OM = "model.om"
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Round:
    """One round.

    Attributes
    ----------
    raised
        The names that its file raises.
    sentence
        What was expected of it.
    located
        The search of the new om; None where nothing was left to raise.
    code
        What its run came to; 3 where there was none.
    file, command
        What atc was given, and its whole command; None and empty where nothing was converted.
    outputs
        The verdict on the network's outputs, as in result.json; None where none was made.
    """

    raised: Sequence[str]
    sentence: str
    located: Optional[str]
    code: int
    file: Optional[str] = None
    command: Sequence[str] = ()
    outputs: Optional[str] = None

    @property
    def verdict(self) -> str:
        """What the run of the new om came to, in words."""
        if self.code == EXIT_FAIL:
            if self.outputs == PASS:
                return "its outputs are within limits, tensors before them are not"
            return "it still fails"
        return "it passes" if self.code == EXIT_PASS else "it is incomplete"

    def document(self) -> Dict[str, Any]:
        """Return it for programs."""
        return {
            "raised": list(self.raised),
            "sentence": self.sentence,
            "folder": self.located,
            "exit_code": self.code,
            "file": self.file,
            "command": list(self.command),
            "outputs": self.outputs,
        }


class Curing:
    """The rounds behind a run that failed.

    Parameters
    ----------
    search, result
        The run.
    mode, budget
        As for ``goldwatch cure``.
    options
        Options that the user gave ``locate`` and that each round needs, too.
    """

    def __init__(
        self,
        search: Search,
        result: CaseResult,
        mode: str,
        budget: Optional[str],
        options: Sequence[str],
    ) -> None:
        plan = search.plan
        assert plan.original is not None and plan.interface is not None and plan.atc is not None
        self._atc: Atc = plan.atc
        self._original, self._interface = plan.original, plan.interface
        self._search, self._result = search, result
        self._mode, self._budget, self._options = mode, budget, list(options)

    def rounds(self) -> List[Round]:
        """Run all rounds; return them in order."""
        rounds: List[Round] = []
        folder, om_json, before = self._result.folder, self._interface.path, ""
        for number in range(1, MOST_ROUNDS + 1):
            out = os.path.join(self._result.folder, "cure", str(number))
            document = self._chosen(number, out, folder, om_json)
            file = document["file"]
            text = "" if file is None else read_input(file, _MOST_BYTES).decode("utf-8")
            if file is None or text == before:
                reason = (
                    document["sentence"]
                    if file is None
                    else "Nothing more to raise: the file is that of the round before."
                )
                rounds.append(Round([], reason, None, EXIT_INCOMPLETE))
                break
            raised = [str(entry["name"]) for entry in document["raised"]]
            located = os.path.join(out, "located")
            om = os.path.join(out, _OM)
            command = self._convert(number, om, document)
            code = self._again(number, om, located)
            stored = stored_outputs(located)
            rounds.append(
                Round(
                    raised,
                    str(document["sentence"]),
                    located,
                    code,
                    str(file),
                    command,
                    None if stored is None else stored[1].summary.verdict,
                )
            )
            if code != EXIT_FAIL:
                break
            folder, om_json, before = located, os.path.join(located, JSON), text
        last = next((each for each in reversed(rounds) if each.file is not None), None)
        if last is not None:
            cured = {
                "cure": str(last.file),
                "converted by": " ".join(map(shlex.quote, last.command)),
                "converted and run again": "%s (%s)" % (last.verdict, last.located),
            }
            self._search.steps.run(self._search.page(self._result.case, cured))
        return rounds

    def _chosen(self, number: int, out: str, folder: str, om_json: str) -> Mapping[str, Any]:
        """Choose the operators to raise; return the document of cure.json."""
        run = os.path.join(folder, RUN)
        command = [
            "goldwatch",
            "cure",
            run,
            "-f",
            om_json,
            "--mode",
            self._mode,
            "--original",
            self._original.path,
        ]
        command += (["--budget", self._budget] if self._budget else []) + ["-o", out]
        # A file that is there already stays in force: the next round's adds to it.
        path = os.path.join(out, DOCUMENT)

        def does(began: bool) -> int:
            return self._search.execute(command[1:])

        settings = {"--mode": self._mode, "--budget": self._budget}
        files = {"what the run found": os.path.join(run, "result.json")}
        step = Step(
            self._name(number, "cure"),
            does,
            command,
            settings,
            files,
            [path],
            lambda code: code in (0, 1, 3),
        )
        self._search.steps.run(step)
        document: Dict[str, Any] = json.loads(read_input(path, _MOST_BYTES).decode("utf-8"))
        return document

    def _again(self, number: int, om: str, located: str) -> int:
        """Run the converted model and judge it."""
        words = ["goldwatch", "locate", self._original.path, om]
        pairs = self._result.case.pairs
        for pair, written in zip(
            pairs, input_files(pairs, os.path.join(self._result.folder, INPUTS))
        ):
            words += [
                "-i",
                "%s=%s" % (written.name, written.golden if pair.image is None else written.device),
            ]
        words += ["--golden", self._search.golden(self._result.case)]
        words += (
            ["--shapes", shapes_text(self._result.case.shapes)] if self._result.case.shapes else []
        )
        words += (
            (["--weights", self._original.weights] if self._original.weights else [])
            + self._options
            + ["-o", located]
        )
        program = self._search.plan.request.words
        words += ["--", *program] if program else []

        def locates(began: bool) -> int:
            return self._search.execute(words[1:])

        step = Step(
            self._name(number, "located"),
            locates,
            words,
            {},
            {"the om": om},
            [],
            lambda code: code in DECIDED,
            on_device=True,
            needs=[located],
        )
        code = self._search.steps.run(step)
        if code not in (EXIT_PASS, EXIT_FAIL, EXIT_INCOMPLETE):
            raise InputError(
                "the run of %s failed (exit code %d)" % (om, code),
                hint="the same command goes on with it",
            )
        return code

    def _convert(self, number: int, om: str, document: Mapping[str, Any]) -> List[str]:
        """Convert the model as a cure says; return atc's command."""
        words = [
            word
            for word in shlex.split(
                " ".join(str(line).rstrip("\\") for line in document["command"])
            )
            if word != "…"
        ]
        options = {
            name: value
            for name, value in atc_options(" ".join(map(shlex.quote, words))).items()
            if name != "output"
        }
        options["model"] = self._original.path
        if self._original.weights is not None:
            options["weight"] = self._original.weights
        options.setdefault("soc_version", self._interface.soc_version)

        def converts(began: bool) -> int:
            made = self._atc.convert(options, om)
            if os.path.realpath(made) != os.path.realpath(om):
                os.rename(made, om)
            return EXIT_PASS

        command = self._atc.convert_command(options, om)
        files = {"what is raised": str(document["file"]), "the model": self._original.path}
        self._search.steps.run(
            Step(self._name(number, "convert"), converts, command, options, files, [om])
        )
        return command

    def _name(self, number: int, step: str) -> str:
        name = "cure/%d/%s" % (number, step)
        return "%s/%s" % (self._result.case.name, name) if self._result.case.name else name
