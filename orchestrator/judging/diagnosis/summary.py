"""A whole run's verdict: the counts, the first divergence, the suspects, the exit code and the last
sentences.
"""

from __future__ import annotations

from functools import partial
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

import numpy as np

from ...base.errors import (
    EXIT_BAD_INPUT,
    EXIT_FAIL,
    EXIT_INCOMPLETE,
    EXIT_PASS,
    EXIT_PROGRAM_FAILED,
)
from ...base.fast_dataclasses import dataclass
from ...base.naming import nearest_names, run_name
from ...base.notes import NOT_JUDGED_BY_NAMES, Note, note
from ...base.wording import listed, plural
from ...dumps.place import Place
from ...metrics.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS, VERDICTS, Row
from ...model.graphs_of_run import AnyGraph, ModelGraphs
from ...tensors.dtypes import dtype_by_name
from ..limits import DEFAULTS, VENDOR, Limits, Subject
from .culprit_sentence import culprit, culprit_sentence, golden_is_undefined, lacks_computing
from .first_divergence import FirstDivergence
from .model_verdict import ModelSummary, ModelVerdict
from .op_input_states import BAD
from .own_error.estimate import Estimate
from .recompute_without_model import TensorReader
from .row_digest import (
    EMPTY,
    GOLDEN_ALONE,
    GOLDEN_NAN,
    LACKS_FILE,
    OTHERWISE,
    OUTPUT_COMPARED,
    PAIRED,
    READABLE,
    REMARKABLE,
    ROUNDED,
    SAMPLE,
    STATISTICAL,
    WITH_NAN,
    Observation,
    RowDigests,
    digests_of_all,
    execution_key,
)
from .suspects import Suspect

INCOMPLETE = "incomplete"
EXACT, OUTPUTS, REPLAY = "exact", "outputs", "replay"
"""``comparison`` of results that are not of dumps and golden data."""

_SHOWN = 3
_TENSOR, _DTYPE, _GOLDEN = map(Observation._fields.index, ("tensor", "dtype", "golden"))
Array = Any

_NOTHING_MATCHES = {
    "op": "no operator of this run is called so",
    "type": "no operator of this run is of that type",
    "dtype": "no tensor of this run is of that type",
}
_REMARKABLE = {
    EMPTY: "nothing-finite",
    WITH_NAN: "equal-nan",
    GOLDEN_NAN: "golden-nan",
    GOLDEN_ALONE: "golden-overflow",
    OTHERWISE: "decided-otherwise",
    ROUNDED: "by-rounding",
    STATISTICAL: "by-statistics",
    SAMPLE: "sampled",
}
"""What is said of tensors with a mark: their verdict says less than it seems to."""
_MOST_UNUSED = 5
_MOST_SUGGESTED = 3
_SUBJECT_FIELDS = {"op": "op", "type": "op_type", "dtype": "dtype"}

_EXIT_CODES = {PASS: EXIT_PASS, FAIL: EXIT_FAIL, INCOMPLETE: EXIT_INCOMPLETE}


@dataclass(frozen=True)
class Summary:
    """What result.json's ``summary`` says.

    Attributes
    ----------
    verdict
        ``fail`` when a row is outside its limits; else ``incomplete`` when a row that should have
        been compared was not (or there is no row at all); else ``pass``.
    ops
        The json's ops; without a json the ops seen.
    rows, passed, failed, not_compared, expected_absent
        The last four add up to the first.
    missing
        How many of ``not_compared`` only lack a file, the golden or the dump (not in result.json).
    outputs
        How many outputs were compared; those without a finite element on either side were not (not
        in result.json).
    empty
        How many tensors have no finite element on either side (not in result.json).
    forgiven
        How many of ``missing`` were forgiven (not in result.json).
    unpaired
        True where dumped tensors could be read and not one had a counterpart: nothing is known (not
        in result.json).
    program
        ``{"exit_code", "signal"}`` of the program that goldwatch launched, and ``"stopped"`` where
        it ended it; or None.
    first
        The first divergence, or None.
    suspects
        Operators that are wrong by themselves, best first.
    warnings
        Sentences about what the counts do not show.
    models
        Each model of the run by itself.
    steps_without_golden
        Dumped steps that have no rows, because GOLDEN has data of other steps only.
    address_overlaps
        Tensors that overlap in memory while both are needed, as documents; None where that was not
        looked for (then not in result.json).
    sentence
        The broken operator in one sentence (not in result.json).
    culprit
        The operator that the sentence names as the one to look at, and its place (not in
        result.json).
    inherited
        Whether the first divergence was computed again, and its error came in with its inputs (not
        in result.json).
    as_fed
        Whether the inputs of the first divergence were as far off as its output (not in
        result.json).
    golden_undefined
        Whether golden data alone hold NaN or Inf at the first divergence, and the device is right
        by computing again (not in result.json).
    lacks_computing
        Whether it is not known whose the error of the first divergence is, because its operator
        could not be computed again (not in result.json).
    sampled
        How many rows are of a sample of the elements; 0: not in result.json.
    culprits
        Of a replay the operators with an error of their own, worst first, as documents; None for a
        comparison (then not in result.json).
    hosts
        Of a run of several hosts what each came to, as documents; None for others (then not in
        result.json).
    recomputed
        How many operators were computed again and what came out, as a document; None where none
        were (then not in result.json).
    by_statistics
        How many rows were compared by statistics alone; 0: not in result.json.
    """

    verdict: str
    ops: int
    rows: int
    passed: int
    failed: int
    not_compared: int
    expected_absent: int
    missing: int = 0
    outputs: int = 0
    empty: int = 0
    forgiven: int = 0
    unpaired: bool = False
    program: Optional[Mapping[str, Any]] = None
    first: Optional[FirstDivergence] = None
    suspects: Tuple[Suspect, ...] = ()
    warnings: Tuple[Note, ...] = ()
    models: Tuple[ModelSummary, ...] = ()
    steps_without_golden: Tuple[str, ...] = ()
    address_overlaps: Optional[Tuple[Mapping[str, Any], ...]] = None
    sentence: str = ""
    culprit: Optional[Tuple[str, Place]] = None
    inherited: bool = False
    as_fed: bool = False
    golden_undefined: bool = False
    lacks_computing: bool = False
    sampled: int = 0
    culprits: Optional[Tuple[Mapping[str, Any], ...]] = None
    hosts: Optional[Tuple[Mapping[str, Any], ...]] = None
    recomputed: Optional[Mapping[str, Any]] = None
    by_statistics: int = 0

    @property
    def devices_agree(self) -> Optional[bool]:
        """Whether every tensor has the same verdict on all devices that ran its model; None where
        no model ran on several.
        """
        agreements = [model.agree for model in self.models if model.agree is not None]
        return all(agreements) if agreements else None

    def document(self) -> Dict[str, Any]:
        """Return result.json's ``summary``; numbers that are not finite stay floats."""
        return {
            "verdict": self.verdict,
            "ops": self.ops,
            "rows": self.rows,
            "passed": self.passed,
            "failed": self.failed,
            "not_compared": self.not_compared,
            "expected_absent": self.expected_absent,
            "program": None if self.program is None else dict(self.program),
            "first_divergence": None if self.first is None else self.first.document(),
            "suspects": [suspect.document() for suspect in self.suspects],
            "warnings": [warning.document() for warning in self.warnings],
            "models": [model.document() for model in self.models],
            "devices_agree": self.devices_agree,
            "steps_without_golden": list(self.steps_without_golden),
            **({} if self.recomputed is None else {"recomputed": dict(self.recomputed)}),
            **({"sampled": self.sampled} if self.sampled else {}),
            **({"by_statistics": self.by_statistics} if self.by_statistics else {}),
            **({} if self.hosts is None else {"hosts": [dict(entry) for entry in self.hosts]}),
            **(
                {}
                if self.culprits is None
                else {"culprits": [dict(entry) for entry in self.culprits]}
            ),
            **(
                {}
                if self.address_overlaps is None
                else {"address_overlaps": [dict(entry) for entry in self.address_overlaps]}
            ),
        }


def only_digest_known(row: int) -> Row:
    """Raise LookupError: only the digest of a row is known."""
    raise LookupError("only the digest of row %d is known" % row)


def summarise(
    rows: Union[RowDigests, Iterable[Row]],
    ops: int,
    limits: Limits,
    program: Optional[Mapping[str, Any]] = None,
    graph: AnyGraph = None,
    allow_missing: bool = False,
    reader: Optional[TensorReader] = None,
    warnings: Iterable[Note] = (),
    steps_without_golden: Sequence[str] = (),
    whole: Callable[[int], Row] = only_digest_known,
) -> Summary:
    """Count the rows and judge the run.

    Parameters
    ----------
    rows
        All rows of the run; walked once.
    ops
        The number of ops of the json; without a json of the ops seen.
    program
        ``{"exit_code": int or None, "signal": name or None}`` of a launched program; with
        ``"stopped": True`` of one that goldwatch ended.
    graph
        The model, or that of each place: tells which operators feed which.
    allow_missing
        Rows that only lack a golden or a dump file do not make the run incomplete; corrupt files
        and differing shapes still do, and so it does when no output was compared at all.
    reader
        Reads the two tensors of a row again, for the explanations of the first suspects; None: rows
        only.
    warnings
        Sentences to go into the summary.
    steps_without_golden
        Dumped steps that have no rows for want of golden data: as rows that lack a golden file.
    whole
        Returns all that there is of a row, by its number; needed where rows come as
        :class:`goldwatch.judging.diagnosis.row_digest.RowDigests`.
    """
    if isinstance(rows, RowDigests):
        digests = rows
    else:
        digests, whole = _with_first_failing(rows)
    by_model = _by_model(digests)
    # Of one model the rows are not copied: of a million they take 105 MB.
    models = {
        name: ModelVerdict(digests if len(by_model) == 1 else digests.some(numbers))
        for name, numbers in by_model.items()
    }
    for name, model in models.items():
        judging = (limits, ModelGraphs.of_all(graph), reader or TensorReader())
        model.judge(*judging, partial(_whole, whole, by_model[name]))

    def marked(mark: int) -> int:
        """Return how many rows have a mark."""
        return int(np.count_nonzero(digests.marked(mark)))

    missing, outputs = marked(LACKS_FILE), marked(OUTPUT_COMPARED)
    tensors = _remarkable(digests)
    counts = {
        verdict: sum(model.observed.counts.get(verdict, 0) for model in models.values())
        for verdict in VERDICTS
    }
    total = sum(counts.values())
    first, estimate = _first_failing(models.values())
    warnings = tuple(warnings)
    # By names that do not fit no operator is judged, by statistics of its rows neither.
    judged = all(warning.code != NOT_JUDGED_BY_NAMES for warning in warnings)
    suspects = sorted(
        (suspect for model in models.values() if judged for suspect in model.suspects),
        key=lambda suspect: suspect.rank,
    )
    compared = bool(counts[PASS] or counts[FAIL])
    lacking = counts[NOT_COMPARED] + (-missing if allow_missing else len(steps_without_golden))
    recomputed = None if reader is None else reader.recomputed()
    return Summary(
        verdict=FAIL if counts[FAIL] else INCOMPLETE if lacking or not outputs else PASS,
        ops=ops,
        rows=total,
        passed=counts[PASS],
        failed=counts[FAIL],
        not_compared=counts[NOT_COMPARED],
        expected_absent=counts[EXPECTED_ABSENT],
        missing=missing,
        outputs=outputs,
        empty=marked(EMPTY),
        forgiven=missing if allow_missing else 0,
        unpaired=not marked(PAIRED)
        and bool(marked(READABLE) or (steps_without_golden and not total)),
        program=program,
        first=first,
        suspects=tuple(suspects),
        warnings=(
            *warnings,
            *([] if limits.metrics else [note("no-limits")]),
            *(
                note(
                    code,
                    "1 tensor has" if len(names) == 1 else "%d tensors have" % len(names),
                    listed(names, _SHOWN),
                )
                for mark, code in _REMARKABLE.items()
                for names in [tensors[mark]]
                if names
            ),
            *_unused_limits(limits, _names(digests)),
        ),
        models=tuple(model.summary() for model in models.values()),
        steps_without_golden=tuple(steps_without_golden),
        sentence=culprit_sentence(
            first,
            compared,
            suspects,
            estimate,
            len(models) > 1,
            (recomputed or {}).get("outputs_of_no_op", ()),
        ),
        culprit=culprit(first, suspects, estimate) if compared else None,
        inherited=estimate is not None
        and estimate.inherits
        and not estimate.output.golden_alone
        and not estimate.left_range
        and not (first is not None and (first.shaped_before or first.inputs == BAD)),
        as_fed=estimate is not None and estimate.as_fed,
        golden_undefined=golden_is_undefined(first, estimate),
        lacks_computing=lacks_computing(first, suspects, estimate),
        sampled=marked(SAMPLE),
        by_statistics=marked(STATISTICAL),
        recomputed=recomputed,
    )


def _whole(whole: Callable[[int], Row], numbers: Array, row: int) -> Row:
    return whole(int(numbers[row]))


def _first_failing(
    models: Iterable[ModelVerdict],
) -> Tuple[Optional[FirstDivergence], Optional[Estimate]]:
    """Return the first divergence of the model whose first failing row is the first of all, and
    that operator's estimate.
    """
    failing = [model for model in models if model.first_row is not None]
    if not failing:
        return None, None
    worst = min(failing, key=lambda model: model.first_key)
    return worst.first, worst.first_estimate


def _names(digests: RowDigests) -> Dict[str, Set[str]]:
    """Return what limits may be for: the names and types of the ops, and the dtypes."""
    used = [digests.shared[code] for code in np.unique(digests.numbers["shared"]).tolist()]
    return {
        "op": {part.op for part in used},
        "type": {part.op_type for part in used},
        "dtype": {part.observed[_DTYPE] for part in used},
    }


def _with_first_failing(rows: Iterable[Row]) -> Tuple[RowDigests, Callable[[int], Row]]:
    """Return the digests of rows, and what returns the first failing row of a model."""
    firsts: Dict[Optional[str], Tuple[int, Row]] = {}

    def each() -> Iterator[Row]:
        for number, row in enumerate(rows):
            if row.verdict == FAIL:
                model = run_name(row.model)
                first = firsts.get(model)
                if first is None or execution_key(row) < execution_key(first[1]):
                    firsts[model] = number, row
            yield row

    digests = digests_of_all(each())
    return digests, dict(firsts.values()).__getitem__


def _by_model(digests: RowDigests) -> Dict[Optional[str], Array]:
    """Return the numbers of the rows of each model, in the order in which they came."""
    codes: Dict[Optional[str], int] = {}
    of_place = [codes.setdefault(run_name(place.model), len(codes)) for place in digests.places]
    used = np.array(of_place, np.int32)
    if len(set(of_place)) == 1:
        # Of a million rows the numbers alone would be 8 MB.
        rows: Dict[Optional[str], Any] = dict.fromkeys(codes, range(len(digests.numbers)))
    else:
        of_row = used[digests.numbers["place"]]
        rows = {name: np.flatnonzero(of_row == code) for name, code in codes.items()}
    came = {name: numbers for name, numbers in rows.items() if len(numbers)}
    return dict(sorted(came.items(), key=lambda item: item[1][0]))


def _remarkable(digests: RowDigests) -> Dict[int, List[str]]:
    """Return the tensors that a warning names, by mark (:class:`.SharedDigest`)."""
    tensors: Dict[int, List[str]] = {mark: [] for mark in _REMARKABLE}
    said: Dict[int, Set[str]] = {mark: set() for mark in _REMARKABLE}
    for code in digests.numbers["shared"][digests.marked(REMARKABLE)].tolist():
        part = digests.shared[code]
        tensor, golden = part.observed[_TENSOR], part.observed[_GOLDEN]
        for mark, names in tensors.items():
            if part.marks & mark:
                name = golden or tensor if mark in (GOLDEN_NAN, GOLDEN_ALONE) else tensor
                # What reads a golden tensor finds in it what its producer's row told.
                if mark != GOLDEN_ALONE or name not in said[mark]:
                    said[mark].add(name)
                    names.append(name)
    return tensors


def _unused_limits(limits: Limits, names: Mapping[str, Collection[str]]) -> List[Note]:
    """Return a note for each selector of the user's own limits that no row matches, most likely
    for a typing error; ``names``: what the rows have, by ``op``, ``type`` and ``dtype``.
    """
    notes: Dict[str, Note] = {}
    for limit in limits.entries:
        if not limit.selector or limit in DEFAULTS or limit in VENDOR or limit.key in notes:
            continue
        if limit.selector == "dtype" and dtype_by_name(limit.pattern) is not None:
            continue  # a type that there is, but not in this run
        names_of_run = names[limit.selector]
        if limit.pattern in names_of_run or any(
            limit.matches(Subject(**{_SUBJECT_FIELDS[limit.selector]: name}))
            for name in names_of_run
        ):
            continue
        near = nearest_names(
            limit.pattern, sorted(filter(None, names_of_run)), _MOST_SUGGESTED, 0.5
        )
        nearest = "; the nearest are %s" % ", ".join(near) if near else ""
        notes[limit.key] = note(
            "unused-limit", limit.key, _NOTHING_MATCHES[limit.selector], nearest
        )
    more = len(notes) - _MOST_UNUSED
    return [
        *list(notes.values())[:_MOST_UNUSED],
        *([note("more-unused-limits", more)] if more > 0 else []),
    ]


def failure_beside_rows(
    code: Optional[int], verdict: str, program: Optional[Mapping[str, Any]], suspects: int
) -> str:
    """Return in words why a run ends with ``code`` though its rows say nothing of it: its program
    failed, or it passes and ``--strict`` does not let its suspects pass; empty where neither holds.
    """
    if code == EXIT_PROGRAM_FAILED:
        program = program or {}
        end = program.get("signal") or "exit code %s" % program.get("exit_code", "unknown")
        return "the program failed with %s" % end
    if code == EXIT_FAIL and verdict == PASS and suspects:
        return "fails (strict), %s" % plural(suspects, "suspect")
    return ""


def exit_code(summary: Summary, strict: bool = False) -> int:
    """Return the exit code of a run: 0 pass, 1 fail, 3 incomplete, 4 when nothing had a
    counterpart, 5 when the launched program failed; the end of one that goldwatch itself ended (it
    was told to stop at the first divergence) is no failure of its own.

    Parameters
    ----------
    strict
        A run that passes but has suspects ends with 1.
    """
    program = summary.program or {}
    if not program.get("stopped") and (program.get("exit_code") or program.get("signal")):
        return EXIT_PROGRAM_FAILED
    if summary.unpaired:
        return EXIT_BAD_INPUT
    accused = any(suspect.accuses for suspect in summary.suspects)
    if strict and accused and summary.verdict == PASS:
        return EXIT_FAIL
    return _EXIT_CODES[summary.verdict]


def run_sentence(summary: Summary, unmatched: Sequence[Note] = ()) -> str:
    """Return the run's last sentences.

    Parameters
    ----------
    unmatched
        What did not find its counterpart at large; the first is the reason why nothing was
        compared.
    """
    if summary.culprits is not None:
        # A replay's: it judges one operator at a time.
        return summary.sentence
    if summary.unpaired:
        why = unmatched[0] if unmatched else "no tensor of TARGET has a golden one"
        return (
            "Incomplete: no output was compared. Not one tensor has its counterpart: %s"
            % _ended(why)
        )
    if not summary.outputs and summary.first is None:
        if unmatched and not summary.passed:
            return "Incomplete: no output was compared: %s" % _ended(unmatched[0])
        return "Incomplete: no output was compared.%s" % _instead(summary)
    by_name = [
        _ended(said[0].upper() + said[1:]) for said in unmatched if said.code == NOT_JUDGED_BY_NAMES
    ]
    sentences = [_incomplete(summary), *(by_name or [summary.sentence]), _forgiven(summary)]
    return " ".join(filter(None, sentences))


def _instead(summary: Summary) -> str:
    """Return what is known where no output was compared."""
    text = ""
    if summary.empty:
        tensors = "1 tensor has" if summary.empty == 1 else "%d tensors have" % summary.empty
        text = " %s no finite element on either side (NaN or Inf alike)." % tensors
    compared = summary.passed > summary.empty
    return text + (
        " The inputs that were compared are within their limits."
        if compared
        else " Nothing is known about any operator."
    )


def _incomplete(summary: Summary) -> str:
    if not summary.outputs:
        return "No output was compared."
    count, steps = summary.not_compared - summary.forgiven, len(summary.steps_without_golden)
    if summary.verdict != INCOMPLETE:
        return ""
    rows_text = "%d %s could not be compared" % (count, "row" if count == 1 else "rows")
    steps_text = "%d %s no golden data" % (steps, "step has" if steps == 1 else "steps have")
    why = ", ".join(text for number, text in ((count, rows_text), (steps, steps_text)) if number)
    return "Incomplete: %s." % why if why else ""


def _forgiven(summary: Summary) -> str:
    if not summary.forgiven:
        return ""
    return "%d %s forgiven." % (
        summary.forgiven,
        "row without its file was" if summary.forgiven == 1 else "rows without their file were",
    )


def _ended(text: str) -> str:
    return text if text.endswith(("?", ")")) else text + "."
