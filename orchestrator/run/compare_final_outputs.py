"""Compares the outputs of a network as a program that ran it wrote them: a source of a run whose
rows they are.

Names of the files: ``{name}_{number}.bin`` (or ``.npy``, ``.txt``), as ais_bench writes them, the
name that of the first input's file or ``pure_infer_data``; ``{name}_output_{number}.bin``, as msame
does. Each writes into a folder named like the time. The number is that of the om's output: the
input of its NetOutput, which tells type, shape and whose output it is. Source of the names: the two
programs' public documentation and sources.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import replace
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..base.element_types import BY_GE_NAME, element_count
from ..base.errors import (
    FormatError,
    GoldwatchError,
    InputError,
    NotComparable,
    UsageError,
)
from ..base.fast_dataclasses import dataclass
from ..base.manifest import read_manifest
from ..base.notes import Note, note
from ..base.safe_reading import read_input
from ..base.wording import listed, plural
from ..dumps.dump_index import OUTPUT_FILE
from ..dumps.file_source import FileSource
from ..dumps.folder_listing import Signature, look_at
from ..dumps.golden_set import GoldenSet, open_golden
from ..dumps.npy import open_npy
from ..metrics.compare_pair import SPLIT_BYTES, refuse
from ..metrics.pair_alignment import converted, geometry_of, open_counterpart
from ..metrics.pair_task import PairTask
from ..metrics.patterns import AlignedPair, align
from ..metrics.row import (
    CORRUPT,
    DUMP_MISSING,
    FAIL,
    GOLDEN_MISSING,
    NETWORK_OUTPUT,
    NOT_COMPARED,
    PASS,
    Row,
)
from ..metrics.user_metrics import output_names
from ..model.atc_options import atc_options
from ..model.graph import ModelGraph
from ..model.graph_walks import Precision
from ..model.graphs_of_run import ModelGraphs
from ..model.never_dumped import INPUT_TYPES
from ..model.op_node import OpNode, TensorDesc, desc_at
from ..model.pairing import Pairing
from ..model.row_plan import OUTPUT, PAIR, DumpedOp, RowPlan
from ..tensors.dtypes import DType, dtype_by_code, dtype_by_name, nbytes
from ..tensors.tensor import Tensor
from ..tensors.user_conversions import UserConversions
from .compare_given_pairs import begin_given_pairs, compare_given_pairs
from .comparison_options import ComparisonOptions
from .progress import OnProgress
from .result import RunResult
from .whole_run import Run, Source, compare_from

FORM = "write NAME=FILE, or NAME=FILE:DTYPE:SHAPE such as 0=out_0.bin:float32:1,1000"


_MOST_TEXT_BYTES = 256 << 20


class OutputText(NamedTuple):
    """What ``NAME=FILE[:DTYPE[:SHAPE]]`` says; None for what it does not."""

    name: str
    file: str
    dtype: Optional[DType] = None
    shape: Optional[Tuple[int, ...]] = None


def parse_output(text: str) -> OutputText:
    """Return what such a text says; raises UsageError where it is another form."""
    name, sign, rest = text.partition("=")
    parts = rest.rsplit(":", 2)
    shape: Optional[Tuple[int, ...]] = None
    if (
        len(parts) == 3
        and _dtype(parts[1]) is not None
        and re.match(r"(?:[0-9]+(?:[,x][0-9]+)*)?\Z", parts[2])
    ):
        shape = tuple(int(size) for size in re.findall("[0-9]+", parts.pop()))
    dtype = _dtype(parts[-1]) if len(parts) > 1 else None
    file = ":".join(parts[:-1] if dtype is not None else parts)
    if not name.strip() or not sign or not file:
        raise UsageError("%r: expected which output it is, and its file" % text, hint=FORM)
    return OutputText(name.strip(), file, dtype, shape)


def _dtype(name: str) -> Optional[DType]:
    """Return the type of a name as numpy or the model's json (``DT_FLOAT16``) writes it; None where
    there is none such.
    """
    return dtype_by_name(name[3:] if name.upper().startswith("DT_") else name)


def read_output(
    path: str, text: OutputText, desc: Optional[TensorDesc], golden: Tensor
) -> Tuple[Tensor, str]:
    """Return the tensor in a file, and what was assumed of it.

    Raises
    ------
    NotComparable
        Its type and shape do not fit its size.
    GoldwatchError
        It cannot be read.
    """
    if path.endswith(".npy"):
        tensor = open_npy(path)
        return (tensor if text.shape is None else _shaped(tensor, text.shape)), ""
    element = BY_GE_NAME.get(desc.dtype) if desc is not None else None
    known = dtype_by_code(element.code) if element is not None else None
    static = desc is not None and bool(desc.dtype) and all(size >= 0 for size in desc.shape)
    shape = (
        text.shape
        if text.shape is not None
        else desc.shape
        if static and desc is not None
        else golden.shape
    )
    layout = (
        desc.layout if desc is not None and desc.layout and text.shape is None and static else "ND"
    )
    if path.endswith(".txt"):
        return _shaped(_numbers(path, text.dtype or known or golden.dtype), shape), ""
    size = os.stat(path).st_size
    dtype, note = text.dtype or known, ""
    if dtype is None:
        guesses = [golden.dtype, dtype_by_code(1), dtype_by_code(2)]
        dtype = next(
            (guess for guess in guesses if nbytes(guess, element_count(shape)) == size),
            golden.dtype,
        )
        note = "taken as %s by its size" % dtype.name
    if (
        nbytes(dtype, element_count(shape)) != size
        and text.shape is None
        and nbytes(dtype, golden.count) == size
    ):
        shape, layout, note = (
            golden.shape,
            "ND",
            "taken as %s, golden's shape: the model says %s" % (list(golden.shape), list(shape)),
        )
    if nbytes(dtype, element_count(shape)) != size:
        needed = nbytes(dtype, element_count(shape))
        raise NotComparable(
            "%s has %d bytes: expected %d, %s %s" % (path, size, needed, dtype.name, list(shape))
        )
    return Tensor(dtype, tuple(shape), layout, FileSource(path, 0, size)), note


def _numbers(path: str, dtype: DType) -> Tensor:
    """Return the numbers in a text file, with blanks, commas or ends of lines between them."""
    text = read_input(path, _MOST_TEXT_BYTES).decode("ascii", "replace").replace(",", " ")
    try:
        values = np.array(text.split(), dtype=np.float64)
    except ValueError as error:
        raise FormatError("not a text of numbers: %s" % error, path) from None
    plain = dtype.name in ("float16", "float64") or (dtype.kind in ("i", "u") and dtype.bits >= 8)
    return Tensor.from_array(values.astype(dtype.name if plain else "float32"))


def _shaped(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    if element_count(shape) != tensor.count:
        raise NotComparable(
            "it has %d elements: expected %d, %s"
            % (tensor.count, element_count(shape), list(shape))
        )
    return replace(tensor.in_c_order(), shape=tuple(shape))


_MOST_NAMES = 6
_GIVE = (
    "the json of the om (atc --mode=1) tells which output each is; or name them: NAME=FILE, NAME "
    "as in GOLDEN"
)


def compare_outputs(
    options: ComparisonOptions,
    jobs: int = 1,
    force: bool = False,
    on_progress: Optional[OnProgress] = None,
) -> RunResult:
    """Compare the outputs of a network with golden data, and judge them as a run.

    Parameters
    ----------
    options
        ``outputs`` is there.
    jobs, force, on_progress
        As for :func:`goldwatch.run.compare_folders.compare_folders`.

    Raises
    ------
    UsageError
        An option makes sense for dumps only, or OUT holds the results of other inputs.
    InputError
        No such file is in TARGET, it cannot be told which output each is, or GOLDEN holds no golden
        data.
    Interrupted
        By Ctrl-C; what was done stays usable.
    """
    wholes = (options.quantisation, options.unfused, options.check_addresses, options.plan)
    if any((options.op_range, options.select, options.time, *wholes)) or os.path.isdir(
        options.model or ""
    ):
        raise UsageError(
            "the outputs of one network are compared: no selection of ops, time, "
            "configuration, or second model"
        )
    for index in options.indexes:
        index.require()
    return compare_from(_FinalOutputs(options, on_progress), jobs, force)


@dataclass
class _Output:
    """One output: the file that holds it, and what is known of it.

    Attributes
    ----------
    number
        Of the om's outputs; None where only its name is known.
    """

    text: OutputText
    number: Optional[int] = None


class _FinalOutputs(Source):
    """The files of a network's outputs."""

    def look(self, graphs: ModelGraphs) -> ModelGraphs:
        """Find and pair them; the model tells which outputs there are, and nothing else of it is
        expected. Raises InputError.
        """
        self.golden = self.options.golden_index.golden()
        if not any(True for _ in self.golden.outputs()):
            from ..kinds.wrong_kind_advice import without_golden

            advice = without_golden(self.options.golden_index)
            text = (
                "GOLDEN: %s: no golden data of outputs was found at or below it"
                % self.options.golden
            )
            raise InputError("; ".join(filter(None, (text, advice.words))), hint=advice.hint)
        self.notes: List[Note] = []
        outputs = [_Output(parse_output(text)) for text in self.options.outputs or ()] or list(
            self._found_files()
        )
        self.planned = _OutputPlan(
            self.options, graphs.graphs[0] if graphs else None, self.golden, outputs
        )
        return ModelGraphs()

    def _found_files(self) -> Iterator[_Output]:
        """Yield the files of the newest folder that holds some; InputError where there are none, or
        of several samples.
        """
        folders: Dict[str, Dict[str, Dict[int, str]]] = {}
        for listing, names in self.options.target_index.files():
            # Of one output the npy counts, which tells type and shape, else what is raw.
            for match in filter(
                None,
                map(
                    OUTPUT_FILE.match,
                    sorted(
                        names, key=lambda name: name[-3:] != "txt" and 1 + name.endswith(".npy")
                    ),
                ),
            ):
                samples = folders.setdefault(listing.rel or ".", {})
                samples.setdefault(match.group("name"), {})[int(match.group("number"))] = (
                    os.path.join(listing.folder, match.group(0))
                )
        if not folders:
            text = (
                "TARGET: %s: it holds no output of a network: NAME_0.bin, .npy or .txt"
                % self.options.target
            )
            raise InputError(text, hint="name them: NAME=FILE")
        newest = max(folders)
        if len(folders) > 1:
            self.notes.append(note("last-outputs", newest, plural(len(folders), "folder")))
        samples = folders[newest]
        if len(samples) > 1:
            raise InputError(
                "TARGET: %s holds the outputs of %d inputs: %s"
                % (newest, len(samples), listed(sorted(samples), 4)),
                hint="golden data are of one: name its files, such as 0=%s"
                % next(iter(samples[min(samples)].values())),
            )
        ((_, numbers),) = samples.items()
        return (
            _Output(OutputText(str(number), numbers[number]), number) for number in sorted(numbers)
        )

    def feed(self, run: Run) -> None:
        """Compare the outputs."""
        planned = self.planned
        begin_given_pairs(run, self.golden, planned.tasks)
        run.notes += [note("network-outputs"), *self.notes]
        compare_given_pairs(
            run.engine,
            planned.tasks,
            planned.rows,
            self.on_progress,
            planned.looks,
            models=self.options.models,
        )
        run.unmatched = list(planned.notes)
        failing = {row.tensor for row in run.store.rows("index", verdict=FAIL)}
        # Whole tensors are held against each other: none of a size that is compared in shares.
        wrong = [
            task
            for task in planned.tasks
            if task.row.tensor in failing and task.nbytes < SPLIT_BYTES
        ][:_MOST_EXCHANGED]
        if len(wrong) > 1:
            found = _of_others(wrong, run.engine.workers.settings.conversions)
            if found:
                run.unmatched.append(note("outputs-exchanged", listed(found, _MOST_NAMES)))
        run.left_out += run.unmatched


_MOST_EXCHANGED = 8
"""So many outputs that are wrong are held against each other's golden data."""
_CLOSE = 0.03
"""The default limit of RelativeEuclideanDistance."""


class _OutputPlan:
    """What each output comes to."""

    def __init__(
        self,
        options: ComparisonOptions,
        graph: Optional[ModelGraph],
        golden: GoldenSet,
        outputs: Sequence[_Output],
    ) -> None:
        self.tasks: List[PairTask] = []
        self.rows: List[Row] = []
        self.looks: Dict[str, Optional[Signature]] = {}
        self.notes: List[Note] = []
        self._options, self._graph, self._golden = options, graph, golden
        self._precision = Precision(graph) if graph is not None else None
        self._pairing = Pairing(graph, lambda op, index: golden.find(op, index) is not None)
        known = list(_outputs_of(graph)) if graph is not None else []
        self._instead = self._of_original(known)
        left = set(range(len(known)))
        for number, output in enumerate(outputs):
            at = self._number(output, known)
            if at is not None:
                left.discard(at)
            made = None if at is None else known[at]
            self._plan(
                output.text, self._row_plan(output, made, number if at is None else at), made, at
            )
        for at in sorted(left):
            row = _row(self._of_model(known[at], at), at)
            self.rows.append(
                refuse(
                    row.but(reason="", reason_codes=""),
                    "no file of it (output %d of the network)" % at,
                    DUMP_MISSING,
                )
            )
        self._require_boxes(len(known))

    def _require_boxes(self, known: int) -> None:
        """Raise UsageError where boxes are looked for in an output that is none."""
        rows = [*self.rows, *(task.row for task in self.tasks)]
        named = {name for row in rows for name in output_names(row)} | set(map(str, range(known)))
        agreement = self._options.agreement
        for boxes in () if agreement is None else agreement.boxes:
            if boxes.output not in named:
                text = "boxes are to be in %r, which is none of the outputs" % boxes.output
                raise UsageError(
                    text, hint="they are %s" % listed(sorted({row.op for row in rows}), 6)
                )

    def _number(self, output: _Output, known: Sequence[_NetworkOutput]) -> Optional[int]:
        """Return which of the om's outputs it is; None without a model, InputError where the model
        has none such.
        """
        if not known:
            if self._graph is not None or output.number is not None:
                what = (
                    "the model tells no outputs"
                    if self._graph is not None
                    else "which output of the network each file is, is not known"
                )
                path = self._path(output.text)
                raise InputError(
                    "TARGET: %s: %s" % (self._options.target, what),
                    hint="%s; %s" % (_GIVE, self._fitting(path)),
                )
            return None
        name, _, index = output.text.name.rpartition(":")
        if output.text.name.isdigit():
            numbers = [int(output.text.name)] if int(output.text.name) < len(known) else []
        else:
            key = (name, int(index)) if name and index.isdigit() else (output.text.name, None)
            numbers = [
                at
                for at, one in enumerate(known)
                if key[0] in one.names and key[1] in (None, one.output)
            ]
        if len(numbers) != 1:
            names = listed(["%d=%s" % (at, one.shown) for at, one in enumerate(known)], 6)
            raise InputError(
                "%s is none of the model's outputs" % output.text.name,
                hint="they are %s; %s" % (names, self._fitting(self._path(output.text))),
            )
        return numbers[0]

    def _of_original(self, known: Sequence[_NetworkOutput]) -> Dict[int, Tuple[str, int]]:
        """Return the outputs of the original model that stand in place of outputs of the om which
        are none of them, by the number of the om's, and note where the two differ.
        """
        theirs = [] if self._graph is None else _outputs_of_original(self._options, self._graph)
        if not theirs or not known:
            return {}
        plans = [self._of_model(one, at) for at, one in enumerate(known)]
        ours = [
            None if plan.golden_op is None else (plan.golden_op, plan.golden_index or 0)
            for plan in plans
        ]
        left = [value for value in theirs if value not in ours]
        others = [at for at, value in enumerate(ours) if value is not None and value not in theirs]
        instead = {
            at: value for at, value in zip(others, left) if not self._hold_the_same(ours[at], value)
        }
        told = [
            "its output %d is %s, the original model has %s there"
            % (at, known[at].shown, "%s:%d" % value)
            for at, value in instead.items()
        ]
        if len(known) < len(theirs):
            without = [value for value in left if value not in instead.values()]
            told.append(
                "it has %d of %d: %s is not handed out"
                % (len(known), len(theirs), listed(["%s:%d" % value for value in without], 6))
            )
        elif not others and not left and ours != theirs:
            told.append(
                "in another order (%s; the original model has %s)"
                % tuple(
                    ", ".join("%s:%d" % value for value in values if value is not None)
                    for values in (ours, theirs)
                )
            )
        if told:
            self.notes.append(note("other-outputs", listed(told, _MOST_NAMES)))
        return instead

    def _hold_the_same(self, ours: Optional[Tuple[str, int]], theirs: Tuple[str, int]) -> bool:
        """Tell whether golden data of two values hold the same numbers, whatever their shape, or
        are not there.
        """
        arrays = []
        for value in (ours, theirs):
            entry = None if value is None else self._golden.find(*value)
            try:
                if entry is None:
                    return True
                arrays.append(np.asarray(open_golden(entry)[0].array(), np.float64).reshape(-1))
            except (GoldwatchError, OSError, MemoryError):
                return True
        one, other = arrays
        return one.size == other.size and np.allclose(one, other, _CLOSE, 0.0, True)

    def _of_model(self, known: _NetworkOutput, at: int) -> RowPlan:
        dumped = DumpedOp(
            known.op.name, known.op.type, 0, 0, max(known.output + 1, len(known.op.output_descs))
        )
        plans = [
            plan
            for plan in self._pairing.rows_for(dumped)
            if plan.kind == OUTPUT and plan.tensor_index == known.output
        ]
        if plans:
            return plans[0]
        tensor = "%s:output:%d" % (known.op.name, known.output)
        why = "the model does not tell what it was made from"
        return RowPlan(
            NOT_COMPARED,
            why,
            index=at,
            op=known.op.name,
            op_type=known.op.type,
            kind=OUTPUT,
            tensor=tensor,
            tensor_index=known.output,
        )

    def _row_plan(self, output: _Output, known: Optional[_NetworkOutput], at: int) -> RowPlan:
        if known is not None:
            plan = self._of_model(known, at)
            if at not in self._instead:
                return plan
            value = self._instead[at]
            return replace(
                plan, status=PAIR, golden_op=value[0], golden_index=value[1], golden=value[0]
            )
        name, _, index = output.text.name.rpartition(":")
        op, number = (name, int(index)) if name and index.isdigit() else (output.text.name, 0)
        return RowPlan(
            PAIR,
            golden_op=op,
            golden_index=number,
            index=at,
            op=op,
            kind=OUTPUT,
            tensor="%s:output:%d" % (op, number),
            tensor_index=number,
            golden=op,
        )

    def _plan(
        self, text: OutputText, plan: RowPlan, made: Optional[_NetworkOutput], at: Optional[int]
    ) -> None:
        path = self._path(text)
        rel = os.path.relpath(path, self._options.target)
        rel = os.path.abspath(path) if rel.startswith(os.pardir) else rel
        row = _row(plan, at).but(target_file=rel)
        if not os.path.exists(path):
            more = "; DTYPE is a name such as float16" if ":" in text.file else ""
            raise InputError(
                "output %s: %s: no such file" % (text.name, text.file), hint=FORM + more
            )
        self.looks[rel] = look_at(path)
        entry = (
            self._golden.find(plan.golden_op or "", plan.golden_index or 0)
            if plan.golden_op is not None
            else None
        )
        if entry is None:
            self.rows.append(self._without_golden(plan, row, path))
            return
        row = row.but(golden_file=entry.rel)
        try:
            tensor, note = read_output(path, text, made and made.desc, open_golden(entry)[0])
        except NotComparable as error:
            self.rows.append(refuse(row, error.message, error.cause))
        except (GoldwatchError, OSError) as error:
            self.rows.append(refuse(row, str(error), CORRUPT))
        else:
            row = row.noted(note, verdict=PASS, shape=tensor.shape, target_dtype=tensor.dtype.name)
            coarser = (
                self._precision.coarser(made.op, OUTPUT, made.output, tensor.dtype.name)
                if made and self._precision
                else ""
            )
            self.tasks.append(
                PairTask(
                    row,
                    tensor,
                    entry,
                    plan.origin_format,
                    plan.origin_shape,
                    limited_as=coarser,
                    final=True,
                )
            )

    def _path(self, text: OutputText) -> str:
        return (
            text.file
            if os.path.isabs(text.file) or os.path.exists(text.file)
            else os.path.join(self._options.target, text.file)
        )

    def _fitting(self, path: str) -> str:
        """Return which golden outputs an output file fits by its shape, or its size in bytes, as a
        sentence: those that were made last first.
        """
        stamps = self._golden.stamps()
        names = sorted(self._golden.outputs(), key=lambda name: (-stamps.get(name[0], 0), name[1]))
        shown = ["%s:%d" % name if name[1] else name[0] for name in names]
        shape: Optional[Tuple[int, ...]] = None
        with contextlib.suppress(GoldwatchError, OSError):
            shape = open_npy(path).shape if path.endswith(".npy") else None
        fits = []
        for name, text in zip(names, shown):
            theirs = self._golden.shape(*name)
            if theirs is None or path.endswith(".txt"):
                continue
            bytes_of = [element_count(theirs) * size for size in (1, 2, 4, 8)]
            if shape == theirs or (shape is None and os.path.getsize(path) in bytes_of):
                fits.append(text)
        if fits:
            return "%s fits %s" % (os.path.basename(path), listed(fits, _MOST_NAMES))
        return "GOLDEN has %s" % listed(shown, _MOST_NAMES)

    def _without_golden(self, plan: RowPlan, row: Row, path: str) -> Row:
        near = self._golden.nearest(plan.golden_op or plan.op)
        why = plan.reason or "no golden data of %s:%d" % (plan.golden_op, plan.golden_index or 0)
        hint = ""
        if not self._graph:
            hint = "; did you mean %s?" % near[0] if near else "; %s" % self._fitting(path)
        cause = GOLDEN_MISSING if plan.golden_op is not None else ""
        return refuse(row.but(reason="", reason_codes=""), why + hint, cause)


def _of_others(tasks: Sequence[PairTask], conversions: UserConversions) -> List[str]:
    """Return which outputs hold the golden values of another one, as sentences."""
    pairs: List[Tuple[PairTask, AlignedPair]] = []
    for task in tasks:
        with contextlib.suppress(GoldwatchError, OSError, MemoryError):
            golden, _ = open_counterpart(task)
            made = converted(task, golden, conversions)
            geometry = geometry_of(made, golden)
            pairs.append((task, align(made.target, golden, geometry, made.as_stored)))
    found = []
    for task, pair in pairs:
        for other, theirs in pairs:
            if other is task or pair.target.shape != theirs.golden.shape:
                continue
            expected = np.asarray(theirs.golden, np.float64)
            error = np.linalg.norm(np.asarray(pair.target, np.float64) - expected)
            if error < _CLOSE * np.linalg.norm(expected):
                found.append("%s holds those of %s" % (task.row.tensor, other.row.tensor))
    return found


def _outputs_of_original(options: ComparisonOptions, graph: ModelGraph) -> List[Tuple[str, int]]:
    """Return the outputs of the original model by node and number, as golden data name them.

    Empty where they are not known: without the model's file or a manifest that names its values, of
    a framework whose models do not tell their outputs, and where the om was told which to have, or
    is one of a part of the model.
    """
    from ..recomputing.find_original import find_original_model

    golden = options.golden
    path = options.original or find_original_model(graph.path or "", golden).path
    if path is None or not path.endswith(".onnx") or "out_nodes" in atc_options(graph.command):
        return []
    from ..netfiles.onnx_model import OnnxModel

    try:
        model = OnnxModel(path).graph
        tensors = (read_manifest(golden) or {}).get("tensors", [])
        values = {one["value"]: (one["original_name"], int(one["output_index"])) for one in tensors}
    except (GoldwatchError, OSError, KeyError, TypeError, ValueError):
        return []
    inputs = {value.name for value in model.data_inputs}
    given = {op.name for op in graph.ops if op.type in INPUT_TYPES and op.graph_index == 0}
    outputs = [values.get(value.name) for value in model.outputs]
    if not given <= inputs or None in outputs:
        return []
    return [value for value in outputs if value is not None]


_JOINING = ("Merge", "StreamMerge")


class _NetworkOutput(NamedTuple):
    """One of the om's outputs: whose it is, and how it is handed out."""

    op: OpNode
    output: int
    desc: TensorDesc

    @property
    def names(self) -> Tuple[str, ...]:
        return (self.op.name, *self.op.originals, self.desc.origin_name or "")

    @property
    def shown(self) -> str:
        """Its op and number, and in brackets the original op."""
        original = next((name for name in reversed(self.names) if name), self.op.name)
        text = "%s:%d" % (self.op.name, self.output)
        return text if original == self.op.name else "%s (%s)" % (text, original)


def _outputs_of(graph: ModelGraph) -> Iterator[_NetworkOutput]:
    """Yield the outputs of a network in their order: what its main graph's NetOutput is given."""
    last = next((op for op in graph.ops if op.type == "NetOutput" and op.graph_index == 0), None)
    for number, source in enumerate(last.inputs if last is not None else ()):
        producer = (
            graph.producer(last, source[0]) if source is not None and last is not None else None
        )
        if producer is None or source is None or last is None:
            continue
        input_desc, output = desc_at(last.input_descs, number), source[1]
        joined = _of_a_gear(graph, producer, output)
        if joined is not None:
            # Of any gear it is the same output, in another size.
            producer, output, input_desc = (
                joined[0],
                joined[1],
                replace(input_desc, shape=tuple(-1 for _ in input_desc.shape)),
            )
        output_desc = desc_at(producer.output_descs, output)
        yield _NetworkOutput(
            producer,
            output,
            replace(
                input_desc if input_desc.dtype else output_desc, origin_name=output_desc.origin_name
            ),
        )


def _of_a_gear(graph: ModelGraph, producer: OpNode, output: int) -> Optional[Tuple[OpNode, int]]:
    """Return which op's output, in one gear, is the output of an op where the gears join again;
    None of any other op.
    """
    ends = [
        op
        for op in graph.ops
        if op.type == "NetOutput" and graph.graph_names[op.graph_index] in producer.subgraphs
    ]
    if not ends and producer.type not in _JOINING:
        return None
    end, number = (ends[0], output) if ends else (producer, 0)
    source = end.inputs[number] if number < len(end.inputs) else None
    node = graph.producer(end, source[0]) if source is not None else None
    return None if node is None or source is None else (node, source[1])


def _row(plan: RowPlan, at: Optional[int]) -> Row:
    verdict = PASS if plan.status == PAIR else NOT_COMPARED
    row = Row(
        index=plan.index,
        op=plan.op,
        op_type=plan.op_type,
        tensor=plan.tensor,
        kind=OUTPUT,
        verdict=verdict,
        tensor_index=plan.tensor_index,
        op_sequence=plan.op_sequence,
        graph_index=plan.graph_index,
        group=plan.group or (plan.op,),
        golden=plan.golden,
        reason=plan.reason,
    )
    if at is None:
        return row
    return row.noted("output %d of the network" % at, "%s=%d" % (NETWORK_OUTPUT, at))
