"""Several runs of one model, each compared with the first bit for bit: which operators differ in
how many of them.
"""

from __future__ import annotations

import json
import os
from functools import partial
from hashlib import blake2b
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ..base.atomic_writing import atomic_text_writer
from ..base.errors import EXIT_FAIL, EXIT_INCOMPLETE, EXIT_PASS, InputError, UsageError
from ..base.fast_dataclasses import dataclass
from ..base.naming import run_name
from ..base.wording import listed, plural
from ..dumps.dump_file import DumpFile
from ..dumps.place import Place
from ..judging.diagnosis.exact_summary import differing_ops
from ..judging.diagnosis.observed_ops import ObservedOp, ObservedOps
from ..judging.diagnosis.op_input_states import GOOD, Inputs
from ..judging.diagnosis.summary import INCOMPLETE
from ..metrics.row import FAIL, PASS
from ..store.opening import make_folder
from ..store.store import RunStore
from ..store.stored_networks import GRAPHS, stored_networks
from ..tensors.tensor import WINDOW_BYTES
from .compare_folders import compare_folders
from .comparison_options import ComparisonOptions
from .progress import Progress
from .result import RunResult

REPEAT_FILE = "repeat.json"

_SHOWN = 8


class RepeatedOp(NamedTuple):
    """An operator whose outputs are not the same in all runs.

    Attributes
    ----------
    place
        Where in the dump trees it is; without the time, which differs (in the model's name ``*``).
    op, op_type
        As in the dumps.
    runs
        The runs, numbered from 1, of which an output differs from that of run 1.
    from_equal_inputs
        Those of them in which its inputs are those of run 1.
    results
        How many different outputs it has in all runs.
    """

    place: Place
    op: str
    op_type: str
    runs: Tuple[int, ...]
    from_equal_inputs: Tuple[int, ...]
    results: int

    def document(self) -> Dict[str, Any]:
        """Return an entry of repeat.json's ``ops``."""
        document = {key: value for key, value in self.place.document().items() if key != "time"}
        what = {"op": self.op, "op_type": self.op_type, "runs": list(self.runs)}
        return {
            **document,
            **what,
            "from_equal_inputs": list(self.from_equal_inputs),
            "results": self.results,
        }


@dataclass(frozen=True)
class Repeated:
    """What several runs come to.

    Attributes
    ----------
    folders
        The dumps of each run.
    results
        The comparisons of runs 2, 3, … with run 1, by their numbers.
    refused
        Why others could not be compared at all, by their numbers.
    ops
        Operators that differ, in execution order.
    file
        repeat.json.
    """

    folders: Tuple[str, ...]
    results: Mapping[int, RunResult]
    refused: Mapping[int, str]
    ops: Tuple[RepeatedOp, ...]
    file: str = ""

    @property
    def verdict(self) -> str:
        """``fail`` where a run differs, else ``incomplete`` where one could not be compared as a
        whole, else ``pass``.
        """
        verdicts = [result.summary.verdict for result in self.results.values()]
        return (
            FAIL
            if FAIL in verdicts
            else INCOMPLETE
            if self.refused or INCOMPLETE in verdicts
            else PASS
        )

    @property
    def exit_code(self) -> int:
        """As that of a comparison."""
        codes = [result.exit_code for result in self.results.values()] + [EXIT_INCOMPLETE] * len(
            self.refused
        )
        return (
            EXIT_FAIL
            if EXIT_FAIL in codes
            else max(codes, default=EXIT_PASS)
            if self.verdict != PASS
            else EXIT_PASS
        )

    @property
    def sentence(self) -> str:
        """The operator that does not repeat, in one sentence."""
        differing = [number for number, result in self.results.items() if result.summary.failed]
        partly = sorted(
            [
                *self.refused,
                *(
                    number
                    for number, result in self.results.items()
                    if result.summary.verdict == INCOMPLETE
                ),
            ]
        )
        rest = ""
        if partly:
            words = (
                "Of run %s not all could be compared.",
                "Of runs %s not all could be compared.",
            )[len(partly) > 1]
            rest = words % listed([str(number) for number in partly], _SHOWN)
        if not differing:
            counts = "No byte of what was compared differs in %s." % plural(
                1 + len(self.results), "run"
            )
            return " ".join(filter(None, (rest, counts)))
        return " ".join(filter(None, (self._difference_text(differing), rest)))

    def _difference_text(self, differing: Sequence[int]) -> str:
        words = ("Run %s differs", "Runs %s differ")[len(differing) > 1]
        head = (words + " from run 1") % listed([str(number) for number in differing], _SHOWN)
        by_themselves = [op for op in self.ops if op.from_equal_inputs]
        if not by_themselves:
            return "%s; no operator is known to make other outputs of equal inputs." % head
        first = by_themselves[0]
        where = "".join(
            " %s %s" % pair
            for pair in (("step", first.place.step), ("device", first.place.device))
            if pair[1] is not None
        )
        return ("%s; %s (%s) is the first operator that makes other outputs of equal inputs%s: "
            "in %s, "
            "%s in all.") % (
            head, first.op, first.op_type, " (%s)" % where.strip() if where else "",
            plural(len(first.from_equal_inputs), "run"),
            plural(first.results, "different result"),
        )  # fmt: skip

    def document(self) -> Dict[str, Any]:
        """Return the document of schemas/repeat.schema.json."""
        runs: List[Dict[str, Any]] = [
            {"run": 1, "folder": self.folders[0], "out": None, "verdict": None, "first": None}
        ]
        for number, folder in enumerate(self.folders[1:], 2):
            if number in self.refused:
                document: Dict[str, Any] = {
                    "out": None,
                    "verdict": INCOMPLETE,
                    "first": None,
                    "reason": self.refused[number],
                }
            else:
                result = self.results[number]
                first = result.first_divergence
                document = {
                    "out": result.options.out,
                    "verdict": result.summary.verdict,
                    "first": None if first is None else first.op,
                }
            runs.append({"run": number, "folder": folder, **document})
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "runs": runs,
            "ops": [op.document() for op in self.ops],
        }


def compare_runs(
    folders: Sequence[str],
    out: str,
    model: Optional[str] = None,
    jobs: int = 1,
    force: bool = False,
    on_progress: Callable[[int, Progress], None] = lambda run, progress: None,
) -> Repeated:
    """Compare the dumps of several runs with those of the first, bit for bit.

    Parameters
    ----------
    folders
        The dumps of each run, two at least.
    out
        ``run_2``, ``run_3``, … there are the results of each comparison, ``repeat.json`` what they
        come to.
    model, jobs, force
        As for :func:`goldwatch.run.compare_folders.compare_folders`.
    on_progress
        Called with the number of a run and how far its comparison is.

    Raises
    ------
    UsageError
        There are not two runs, or OUT holds results of others.
    InputError
        No run can be compared with the first; where some can, the others are
        :attr:`Repeated.refused`.
    """
    if len(folders) < 2:
        raise UsageError("%s: two at least are compared" % plural(len(folders), "run"))
    make_folder(out)
    gathered = _ComparedRuns()
    results: Dict[int, RunResult] = {}
    errors: Dict[int, InputError] = {}
    for number, folder in enumerate(folders[1:], 2):
        options = ComparisonOptions(
            folder, folders[0], os.path.join(out, "run_%d" % number), model, exact=True
        )
        try:
            results[number] = compare_folders(
                options, jobs, force, on_progress=partial(on_progress, number)
            )
        except InputError as error:
            errors[number] = error
            continue
        gathered.add(number, results[number])
    if not results:
        raise next(iter(errors.values()))
    refused = {number: error.message for number, error in errors.items()}
    repeated = Repeated(
        tuple(folders), results, refused, tuple(gathered.ops()), os.path.join(out, REPEAT_FILE)
    )
    with atomic_text_writer(repeated.file) as stream:
        json.dump(repeated.document(), stream, indent=1)
        stream.write("\n")
    return repeated


_Key = Tuple[Place, str, str]


class _ComparedRuns:
    """The operators that differ in some run."""

    def __init__(self) -> None:
        self._runs: Dict[_Key, Dict[int, Tuple[bool, str]]] = {}
        self._order: Dict[_Key, int] = {}

    def add(self, number: int, result: RunResult) -> None:
        """Take what a run's comparison found."""
        with RunStore.open(result.options.out) as store:
            observed_ops = ObservedOps(store.rows())
            inputs = Inputs(observed_ops, stored_networks(store.get(GRAPHS) or ()))
        order = observed_ops.ranks.tolist()
        for op, state in differing_ops(observed_ops, inputs):
            key = _place(op), op.name, op.type
            equal, _ = self._runs.setdefault(key, {}).get(number, (False, ""))
            self._runs[key][number] = (
                equal or state == GOOD,
                os.path.join(result.options.target, op.file),
            )
            self._order[key] = min(order[op.at], self._order.get(key, order[op.at]))

    def ops(self) -> List[RepeatedOp]:
        """Return them in execution order."""
        ops = []
        for key in sorted(self._runs, key=lambda key: self._order[key]):
            runs = self._runs[key]
            outputs: Set[bytes] = (
                {_digest(path) for _, path in runs.values()} if len(runs) > 1 else {b""}
            )
            equal = tuple(number for number, (state, _) in runs.items() if state)
            ops.append(RepeatedOp(*key, tuple(runs), equal, 1 + len(outputs)))
        return ops


def _place(op: ObservedOp) -> Place:
    """Return an operator's place without what differs from run to run: ``*`` stands for the time in
    the model's name.
    """
    return op.place._replace(time=None, model=run_name(op.place.model, "*"))


def _digest(path: str) -> bytes:
    digest = blake2b(digest_size=16)
    dump = DumpFile(path)
    for index in range(len(dump.outputs)):
        source = dump.source("output", index)
        for start in range(0, source.nbytes, WINDOW_BYTES):
            digest.update(source.read(start, min(WINDOW_BYTES, source.nbytes - start)).tobytes())
    return digest.digest()
