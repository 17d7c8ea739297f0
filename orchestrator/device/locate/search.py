"""One search: the steps of a plan, done one after the other, each case in a folder of its own."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import field
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from ...adapters.golden_folder import golden_files
from ...base.errors import EXIT_FAIL, EXIT_INCOMPLETE, EXIT_PASS, GoldwatchError, InputError
from ...base.fast_dataclasses import dataclass
from ...base.notes import Note, note
from ...dumps.dump_index import DumpIndex
from ...judging.diagnosis.explanations import OTHER_INPUT, Explanation
from ...judging.diagnosis.suspects import LOW, Suspect
from ...metrics.row import PASS
from ...model.om_interface import OmInterface
from ...model.read_model import load_model
from ...run.mismatch_warnings import OTHER_JSON
from ...run.result import RunResult, stored_result
from ..launch.program import LOG_FILE
from ..launch.runners import PROGRAM, Failure, Run, failure_of
from ..launch.user_commands import run_to_the_end
from .input_pairs import InputPair
from .input_values import input_files, write_inputs
from .network_outputs import outputs_words
from .plan import OTHER_OM, OmRun, Plan
from .resumable_steps import Step, Steps
from .shape_combinations import shapes_text

JSON, GOLDEN_JSON = "model.json", "golden_model.json"
INPUTS, GOLDEN, DUMP, OUTPUTS, RUN, FINAL = "inputs", "golden", "dump", "outputs", "run", "final"
ACL, PAGE = "acl.json", "report.html"
_LEAST_OUTPUT_BYTES = 1 << 20
_JUDGED = (EXIT_PASS, EXIT_FAIL, EXIT_INCOMPLETE)
DECIDED = (EXIT_PASS, EXIT_FAIL)
"""After these exit codes a comparison is not made again: it is complete."""

Execute = Callable[[Sequence[str]], int]
"""Does a command of goldwatch, its words behind ``goldwatch``; returns its exit code or raises its
error.
"""


@dataclass
class CaseResult:
    """What one run came to.

    Attributes
    ----------
    code
        0, 1, 3, or that of a program that failed.
    run, final
        The comparison of the dumps, and that of the outputs; None where there was none.
    problem
        Why the program failed, where that is known.
    was_stopped
        The user ended the run: what had come is judged, and the same command runs the om again.
    earlier
        When the om was run, in seconds since the epoch (0: not known), where that was not just now.
    """

    case: OmRun
    folder: str
    code: int
    run: Optional[RunResult] = None
    final: Optional[RunResult] = None
    problem: Optional[Failure] = None
    was_stopped: bool = False
    earlier: Optional[float] = None

    @property
    def outputs(self) -> Optional[str]:
        """The verdict on the network's outputs; None where there is none."""
        return None if self.final is None else self.final.summary.verdict

    @property
    def other_json(self) -> Optional[Note]:
        """What tells that the json is not of the om that was run; None where nothing does."""
        warnings = () if self.run is None else self.run.summary.warnings
        return next((one for one in warnings if one.code in OTHER_JSON), None)

    @property
    def had_other_inputs(self) -> bool:
        """Whether the network's input itself differs from golden data."""
        suspects = () if self.run is None else self.run.summary.suspects
        return any(
            ":input:" in each.tensor
            and any(entry.kind == OTHER_INPUT for entry in each.explanations[:1])
            for each in suspects
        )

    @property
    def cleared_by(self) -> Optional[Explanation]:
        """Why no operator need be wrong though one differs; None where one is accused, and where
        that is the input.
        """
        if self.run is None or self.had_other_inputs or self.culprit is not None:
            return None
        return next((each.explanations[0] for each in self.run.summary.suspects), None)

    @property
    def culprit(self) -> Optional[str]:
        """The operator to look at; None where nothing was found, where each is right on the
        device's own inputs, and where device and golden data had different inputs. The first
        difference of two oms within all limits accuses nobody: rounding may be all that differs.
        """
        if self.run is None or self.had_other_inputs:
            return None
        summary = self.run.summary
        if summary.suspects:
            named = [suspect.op for suspect in summary.suspects if suspect.accuses]
            if summary.culprit is not None and summary.culprit[0] in named:
                return summary.culprit[0]
            return named[0] if named else None
        if summary.first is None:
            return None
        culprit = summary.first.op if summary.culprit is None else summary.culprit[0]
        return None if culprit == self.cleared else culprit

    @property
    def culprits(self) -> List[str]:
        """The operator to look at, and behind it all others that are wrong by themselves."""
        first = [] if self.culprit is None else [self.culprit]
        return list(dict.fromkeys([*first, *(suspect.op for suspect in self.suspects)]))

    @property
    def suspects(self) -> List[Suspect]:
        """Those that are told apart well enough to be named beside the culprit, that one first."""
        if self.run is None or self.had_other_inputs:
            return []
        suspects = list(self.run.summary.suspects)
        return sorted(
            (
                each
                for each in suspects
                if each.accuses and (each.op == self.culprit or each.confidence != LOW)
            ),
            key=lambda each: each.op != self.culprit,
        )

    @property
    def cleared(self) -> Optional[str]:
        """The first operator outside its limits, where that one and all others are right on the
        device's own inputs; else None.
        """
        summary = None if self.run is None else self.run.summary
        if (
            summary is None
            or summary.first is None
            or summary.recomputed is None
            or summary.suspects
            or summary.recomputed["wrong"]
        ):
            return None
        left = [str(entry["op"]) for entry in summary.recomputed["not_computed"]]
        return None if summary.first.op in left else summary.first.op

    def document(self) -> Dict[str, Any]:
        """Return it for programs."""
        return {
            "shapes": shapes_text(self.case.shapes) or None,
            "folder": self.folder,
            "exit_code": self.code,
            "verdict": None if self.run is None else self.run.summary.verdict,
            "culprit": self.culprit,
            "culprits": self.culprits,
            "outputs": self.outputs,
            "other_json": None if self.other_json is None else str(self.other_json),
            "sentence": None if self.run is None else self.run.sentence,
            "problem": None if self.problem is None else self.problem._asdict(),
        }


@dataclass
class Search:
    """A search in its folder.

    Attributes
    ----------
    execute
        Does commands of goldwatch.
    say
        Takes lines for the user.
    notes
        What is to be said at the end.
    """

    plan: Plan
    steps: Steps
    execute: Execute
    say: Callable[[str], None]
    notes: List[Note] = field(default_factory=list)

    @property
    def _interface(self) -> OmInterface:
        assert self.plan.interface is not None
        return self.plan.interface

    def folder(self, case: OmRun) -> str:
        """Return a case's folder."""
        return (
            os.path.join(self.plan.request.out, case.name) if case.name else self.plan.request.out
        )

    def golden(self, case: OmRun) -> str:
        """Return the folder of a case's golden data."""
        return self.plan.request.golden or os.path.join(self.folder(case), GOLDEN)

    def refuse_others(self) -> None:
        """Raise UsageError where OUT holds a search of something else."""
        self.steps.refuse_others([step for case in self.plan.runs for step in self.all_steps(case)])

    def all_steps(self, case: OmRun) -> Iterator[Step]:
        """Yield the steps of a case in their order."""
        yield self._inputs(case)
        if self.plan.golden_om is not None:
            yield self._golden_configuration(case)
            yield self._golden_run(case)
        elif self.plan.request.golden is None:
            yield self._golden(case)
        yield self._configuration(case)
        yield self._run(case)
        yield self._final(case)
        yield self.page(case)

    def planned_steps(self, case: OmRun) -> Iterator[Tuple[Step, bool]]:
        """Yield the steps of a case in their order, each with whether it and all before it were
        done, and need not be done again.
        """
        were_done = True
        for step in self.all_steps(case):
            if self._named(step) == FINAL and were_done and not self._has_outputs(case):
                continue
            were_done = were_done and self.steps.was_done(step)
            yield step, were_done

    def do(self, case: OmRun, until: Optional[str] = None) -> CaseResult:
        """Run the steps of a case that have not been done, up to the one named ``until`` if given.

        Raises
        ------
        GoldwatchError
            A step failed; the same call goes on with it.
        """
        os.makedirs(self.folder(case), exist_ok=True)
        result = CaseResult(case, self.folder(case), EXIT_PASS)
        for step in self.all_steps(case):
            name = self._named(step)
            if name == FINAL and not self._has_outputs(case):
                continue
            code = self.steps.run(step)
            if name == RUN:
                result.earlier = self.steps.earlier(step.name)
            if name in (RUN, FINAL):
                opened = stored_result(step.leaves[0]) if os.path.isdir(step.leaves[0]) else None
                result.run, result.final = (
                    (opened, result.final) if name == RUN else (result.run, opened)
                )
                right = name == FINAL and result.outputs == PASS
                result.code = worst_exit_code((result.code, EXIT_PASS if right else code))
            if name == RUN and code not in _JUDGED:
                log = os.path.join(step.leaves[0], LOG_FILE)
                result.problem = _killed(result.run, log) or failure_of(log)
                return result
            result.was_stopped = result.was_stopped or (
                name == RUN and not _ended_well(step.leaves[0])
            )
            if name == until or result.was_stopped:
                return result
        return result

    @staticmethod
    def _named(step: Step) -> str:
        """Return what a step is called within its case."""
        return step.name.rpartition("/")[2]

    def _has_outputs(self, case: OmRun) -> bool:
        """Tell whether the final outputs can be compared by themselves; dumps of a second om are no
        golden data of outputs.
        """
        if self.plan.golden_om is not None:
            return False
        outputs = os.path.join(self.folder(case), OUTPUTS)
        if DumpIndex(outputs, "TARGET").holds_outputs:
            return True
        said = note("no-network-outputs", outputs)
        if said not in self.notes:
            self.notes.append(said)
        return False

    def _inputs(self, case: OmRun) -> Step:
        folder, seed = os.path.join(self.folder(case), INPUTS), self.plan.request.seed

        def does(began: bool) -> int:
            for text in write_inputs(case.pairs, folder, seed):
                self.say(text)
            if self.plan.golden_om is not None:
                write_inputs(self._golden_pairs(case), os.path.join(folder, GOLDEN), seed)
            return EXIT_PASS

        files = {
            "the values of %s" % pair.model.name: pair.file
            for pair in case.pairs
            if pair.file is not None
        }
        settings = {"inputs": [_described(pair) for pair in case.pairs], "seed": seed}
        return Step(
            self._name(case, INPUTS), does, self._own_command(INPUTS), settings, files, [folder]
        )

    def _golden_pairs(self, case: OmRun) -> List[InputPair]:
        """Return the inputs of the second om: the same values in its own types."""
        assert self.plan.golden_om is not None
        theirs = {om.name: om for om in self.plan.golden_om.inputs}
        pairs = []
        for pair in case.pairs:
            om = theirs[pair.model.name]
            shape = pair.shape if pair.image is None else tuple(om.shape)
            pairs.append(InputPair(pair.model, om, pair.shape, shape, None, pair.file, pair.image))
        return [
            pairs[at]
            for at in _order(
                [om.name for om in self.plan.golden_om.inputs], [pair.om.name for pair in pairs]
            )
        ]

    def _golden(self, case: OmRun) -> Step:
        plan, out = self.plan, os.path.join(self.folder(case), GOLDEN)
        assert plan.original is not None
        fed = {
            each.name: each.golden
            for each in input_files(case.pairs, os.path.join(self.folder(case), INPUTS))
        }
        command = plan.original.golden_command(fed, out, plan.golden_python)
        files = {"input %s" % name: path for name, path in fed.items()}
        names = (
            ["the model", "its weights"]
            if len(plan.original.files) < 3
            else list(plan.original.files)
        )
        files.update(zip(names, plan.original.files))

        def does(began: bool) -> int:
            words = command[1:] + (["--force"] if began and os.path.isdir(out) else [])
            try:
                return self.execute(words)
            except InputError as error:
                if error.hint and "--" in error.hint:
                    # Their options are none of this command.
                    given = [
                        "-i %s=%s" % (shlex.quote(name), shlex.quote(fed[name])) for name in fed
                    ]
                    told = "%s; with it: %s; then locate with another -o and --golden %s %s"
                    # One that asks nothing of the user stands in the command.
                    backend = re.search(r"--backend \w+", error.hint)
                    made = " ".join(map(shlex.quote, command))
                    made += " " + backend.group() if backend else ""
                    error.hint = told % (error.hint, made, shlex.quote(out), " ".join(given))
                raise

        return Step(
            self._name(case, GOLDEN), does, command, {"python": plan.golden_python}, files, [out]
        )

    def _configuration(self, case: OmRun) -> Step:
        return self._acl(case, "configuration", self._interface, DUMP, ACL)

    def _golden_configuration(self, case: OmRun) -> Step:
        assert self.plan.golden_om is not None
        return self._acl(
            case,
            "golden configuration",
            self.plan.golden_om,
            GOLDEN,
            os.path.join("golden_run", ACL),
        )

    def _acl(self, case: OmRun, name: str, interface: OmInterface, dump: str, file: str) -> Step:
        """Return the step that writes an acl.json for all graphs of an om."""
        path, dumps = (
            os.path.join(self.folder(case), file),
            os.path.abspath(os.path.join(self.folder(case), dump)),
        )
        command = [
            "goldwatch",
            "config",
            "new",
            "--dump-path",
            dumps,
            "--om",
            interface.path,
            "--mode",
            "all",
            "-o",
            path,
        ]
        graph = load_model(interface.path)
        if len(graph.graph_names) > 1:
            names = dict.fromkeys([graph.name, *graph.graph_names])
            command[3:3] = [word for each in names if each for word in ("--model", each)]

        def does(began: bool) -> int:
            os.makedirs(dumps, exist_ok=True)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return self.execute([*command[1:], "-q"])

        return Step(
            self._name(case, name),
            does,
            command,
            {"mode": "all"},
            {"the om's json": interface.path},
            [path],
        )

    def _runner_words(
        self,
        case: OmRun,
        interface: OmInterface,
        om: str,
        pairs: Sequence[InputPair],
        inputs: str,
        acl: str,
        output: str,
    ) -> List[str]:
        """Return the command that runs an om; what it needs of folders is there only when it is
        done.
        """
        plan = self.plan
        assert plan.runner is not None
        files = [os.path.abspath(each.device) for each in input_files(pairs, inputs)]
        shapes = {pair.om.name: pair.om_shape for pair in pairs}
        run = Run(
            os.path.abspath(om), files, os.path.abspath(output), os.path.abspath(acl),
            plan.request.device, interface.dynamic, shapes,
            self._output_bytes(case, interface),
        )  # fmt: skip
        command = plan.runner.command(run)
        words = list(command.argv)
        if command.environ:
            words = ["env", *("%s=%s" % item for item in sorted(command.environ.items())), *words]
        if command.cwd is not None:
            words = ["sh", "-c", 'cd "$0" && exec "$@"', os.path.abspath(command.cwd), *words]
        return words

    def _output_bytes(self, case: OmRun, interface: OmInterface) -> List[int]:
        """Return how large the outputs may be at most: as the largest golden tensor; nothing as
        long as there are none.
        """
        golden = self.golden(case)
        if interface.dynamic is None or not os.path.isdir(golden):
            return []
        sizes = [os.path.getsize(os.path.join(golden, name)) for name in golden_files(golden)]
        return [max([_LEAST_OUTPUT_BYTES, *sizes])] * interface.outputs if sizes else []

    def _run(self, case: OmRun) -> Step:
        plan, folder = self.plan, self.folder(case)
        out, outputs, dumps = (os.path.join(folder, name) for name in (RUN, OUTPUTS, DUMP))
        assert plan.runner is not None
        command = self._run_command(case, out, outputs)

        def does(began: bool) -> int:
            os.makedirs(outputs, exist_ok=True)
            try:
                return self.execute(command[1:])
            except InputError as error:
                # Nothing was dumped, perhaps for what the plan said at its beginning.
                said = [one for one in plan.notes if one.code == OTHER_OM]
                told = ["%s (%s)" % (one, one.next) for one in said]
                error.hint = "; ".join(filter(None, [*told, error.hint]))
                raise

        inputs = input_files(case.pairs, os.path.join(folder, INPUTS))
        files = {"input %s" % each.name: each.device for each in inputs}
        files.update({"the om": plan.request.om, "the om's json": self._interface.path})
        files.update(self._golden_file(case))
        template = (
            list(plan.runner.words)
            if plan.runner.name == PROGRAM
            else [plan.runner.name, plan.runner.where]
        )
        settings = {
            "the program": template,
            "device": plan.request.device,
            "--keep": plan.request.keep,
            "--strict": plan.request.strict,
        }

        def is_done(code: int) -> bool:
            return code in DECIDED and _ended_well(out)

        return Step(
            self._name(case, RUN),
            does,
            command,
            settings,
            files,
            [out, dumps, outputs],
            is_done,
            on_device=True,
        )

    def _run_command(self, case: OmRun, out: str, outputs: str) -> List[str]:
        """Return the command that runs the om and compares its dumps.

        Parameters
        ----------
        out
            The folder of the comparison.
        outputs
            The folder of the om's outputs.
        """
        plan, folder = self.plan, self.folder(case)
        acl, interface = os.path.join(folder, ACL), self._interface
        inputs = os.path.join(folder, INPUTS)
        words = self._runner_words(
            case, interface, plan.request.om, case.pairs, inputs, acl, outputs
        )
        command = ["goldwatch", "run", "--acl", acl]
        command += ["--golden", self.golden(case), "-f", interface.path]
        if plan.golden_om is not None:
            # Ops that do nothing are dumped by neither: what reads them has no golden data.
            command += ["--unfused-om", plan.golden_om.path, "--allow-missing"]
        command += ["--strict"] if plan.request.strict else []
        return [*command, "--keep", plan.request.keep, "-o", out, "--", *words]

    def _golden_file(self, case: OmRun) -> Dict[str, str]:
        """Return what stands for the golden data among the files that decide a step."""
        if self.plan.golden_om is not None:
            return {"the golden om": self.plan.request.model}
        return {"the golden data": os.path.join(self.golden(case), "manifest.json")}

    def _golden_run(self, case: OmRun) -> Step:
        """Return the step that runs the second om, whose dumps are the golden data."""
        assert self.plan.golden_om is not None and self.plan.runner is not None
        folder, pairs = self.folder(case), self._golden_pairs(case)
        dumps, outputs = os.path.join(folder, GOLDEN), os.path.join(folder, "golden_run", OUTPUTS)
        acl, inputs = os.path.join(folder, "golden_run", ACL), os.path.join(folder, INPUTS, GOLDEN)
        words = self._runner_words(
            case, self.plan.golden_om, self.plan.request.model, pairs, inputs, acl, outputs
        )

        def does(began: bool) -> int:
            for path in (dumps, outputs):
                os.makedirs(path, exist_ok=True)
            run_to_the_end(words, os.path.join(folder, "golden_run", LOG_FILE), self.say)
            return EXIT_PASS

        files = {"input %s" % each.name: each.device for each in input_files(pairs, inputs)}
        files["the golden om"] = self.plan.request.model
        settings = {"the program": self.plan.runner.name, "device": self.plan.request.device}
        leaves = [dumps, outputs]
        return Step(self._name(case, GOLDEN), does, words, settings, files, leaves, on_device=True)

    def _final(self, case: OmRun) -> Step:
        folder = self.folder(case)
        out, outputs = (os.path.join(folder, name) for name in (FINAL, OUTPUTS))
        command = [
            "goldwatch",
            "compare",
            outputs,
            self.golden(case),
            "-f",
            self._interface.path,
            "-o",
            out,
            "--table",
            "none",
        ]

        def does(began: bool) -> int:
            return self.execute(command[1:])

        files = {
            "what the run found": os.path.join(folder, RUN, "result.json"),
            **self._golden_file(case),
        }
        return Step(
            self._name(case, FINAL), does, command, {}, files, [out], lambda code: code in DECIDED
        )

    def page(self, case: OmRun, cured: Optional[Mapping[str, str]] = None) -> Step:
        """Return the step that writes the page of a case, with what cured it if known."""
        out, page = os.path.join(self.folder(case), RUN), os.path.join(self.folder(case), PAGE)
        command = ["goldwatch", "report", out, "--html", page]
        request = self.plan.request
        about = {"om": request.om, "original model": request.model}
        if self._interface.soc_version:
            about["chip"] = self._interface.soc_version
        if "atc_version" in self._interface.attributes:
            about["atc"] = self._interface.attributes["atc_version"]
        if case.shapes:
            about["shapes"] = shapes_text(case.shapes)
        stored = stored_outputs(self.folder(case))
        if stored is not None:
            about["outputs of the network"] = outputs_words(*stored)
        for entry in dict(about, **cured or {}).items():
            command += ["--about", "%s=%s" % entry]

        def does(began: bool) -> int:
            return self.execute([*command[1:], "-q"])

        files = {"what the run found": os.path.join(out, "result.json")}
        name = "page" if cured is None else "cure/page"
        return Step(self._name(case, name), does, command, {}, files, [page])

    def _name(self, case: OmRun, step: str) -> str:
        return "%s/%s" % (case.name, step) if case.name else step

    def _own_command(self, until: str) -> List[str]:
        """Return the command of this search that ends after a step."""
        request = self.plan.request
        words = ["goldwatch", "locate", request.model, request.om]
        words += [word for text in request.inputs for word in ("-i", text)]
        words += ["--seed", str(request.seed)] + (
            ["--shapes", request.shapes] if request.shapes else []
        )
        words += ["--until", until, "-o", request.out]
        return words + (["--", *request.words] if request.words else [])


def stored_outputs(folder: str) -> Optional[Tuple[RunResult, RunResult]]:
    """Return the comparison of a run's dumps, and that of its outputs; None where this was not
    made.
    """
    run, final = (os.path.join(folder, name) for name in (RUN, FINAL))
    return (stored_result(run), stored_result(final)) if os.path.isdir(final) else None


def _ended_well(out: str) -> bool:
    """Tell whether the program of a run ended by itself."""
    try:
        program = stored_result(out).summary.program
    except GoldwatchError:
        return False
    return program is not None and program.get("exit_code") == 0


def _killed(run: Optional[RunResult], log: str) -> Optional[Failure]:
    """Return how a program was killed; None where it ended by itself."""
    program = None if run is None else run.summary.program
    if run is None or program is None or not program.get("signal"):
        return None
    signal = str(program["signal"])
    reason = "the program was ended by %s in the middle of its run" % signal
    reason += "; what it had dumped by then is judged above" if run.summary.rows else ""
    hint = "its output is in %s" % log
    if signal == "SIGKILL":
        hint = "it may come from the kernel, where memory ran out (dmesg); else %s" % hint
    return Failure(reason, hint)


def worst_exit_code(codes: Iterable[int]) -> int:
    """Return the exit code that tells most: of a program that failed, a failing comparison, an
    incomplete one, success.
    """
    order = [EXIT_PASS, EXIT_INCOMPLETE, EXIT_FAIL]
    return max(codes, key=lambda code: order.index(code) if code in order else len(order) + code)


def _described(pair: InputPair) -> List[Any]:
    return [
        pair.model.name,
        pair.model.dtype,
        list(pair.shape),
        pair.om.dtype,
        list(pair.om_shape),
        pair.file and "file",
    ]


def _order(names: Sequence[str], positions: Sequence[str]) -> List[int]:
    return [list(positions).index(name) for name in names]
