"""Compares the files of ``torch.save`` that TorchAir's modes without GE (reduce-overhead,
npugraph_ex) write of each node, with an FX dump or with such files of another run: a source of a
run.

A file is ``{node}_device_{D}_{k}.pt`` in ``worldsize{N}_global_rank{R}``; k counts the calls of
the node. There is no compiled graph, so there are no inputs: each file is an output. The order of
the nodes is that in which the FX dump was written (where its times are the same, that of what reads
what), else the files of TARGET. Source: torch_npu 2.14
(npu/graphs.py, dynamo/torchair/_acl_concrete_graph/utils.py).
"""

from __future__ import annotations

import os
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..base.errors import FormatError, GoldwatchError, InputError, UsageError
from ..base.naming import parse_fx_name
from ..base.notes import note
from ..base.safe_reading import sha256_of_file
from ..base.wording import plural
from ..dumps.dump_index import TORCH_NODE_FILE, DumpIndex
from ..dumps.folder_listing import Signature, look_at
from ..dumps.golden_set import GoldenEntry, GoldenSet
from ..dumps.torch_file import open_torch
from ..metrics.compare_pair import refuse
from ..metrics.pair_task import PairTask
from ..metrics.row import CORRUPT, EXPECTED_ABSENT, GOLDEN_MISSING, NOT_COMPARED, PASS, Row
from ..model.graphs_of_run import ModelGraphs
from .compare_given_pairs import begin_given_pairs, compare_given_pairs
from .comparison_options import ONE, ComparisonOptions
from .golden_files import fx_place, rank_of
from .progress import OnProgress
from .result import RunResult
from .whole_run import Run, Source, compare_from

_NAMES_SHOWN = 10


class _File(NamedTuple):
    """A file of one node in one call; ``time`` grows in the order of writing."""

    path: str
    rank: Optional[str]
    node: str
    device: str
    call: str
    time: int
    target: str = ""
    number: int = 0


def compare_torch_files(
    options: ComparisonOptions,
    jobs: int = 1,
    force: bool = False,
    on_progress: Optional[OnProgress] = None,
) -> RunResult:
    """Compare such files with golden data and judge them as a run.

    Parameters
    ----------
    options
        ``target`` is a folder that holds such files.
    jobs, force, on_progress
        As for :func:`goldwatch.run.compare_folders.compare_folders`.

    Raises
    ------
    UsageError
        An option is for dumps alone, or OUT holds the results of other inputs.
    InputError
        GOLDEN holds no such data, or none of a node of TARGET.
    Interrupted
        By Ctrl-C; what was done stays usable.
    """
    wholes = (options.model, options.quantisation, options.unfused, options.plan)
    if any((options.op_range, options.select, options.time, options.check_addresses, *wholes)):
        raise UsageError(
            "TARGET holds files of torch.save: a model, a dump configuration, a range of ops and "
            "a time are for the dumps of a device"
        )
    return compare_from(_TorchFiles(options, on_progress), jobs, force)


class _TorchFiles(Source):
    """The files of the two folders."""

    def look(self, graphs: ModelGraphs) -> ModelGraphs:
        """Pair the files; raise InputError where nothing can be compared."""
        self.tasks: List[PairTask] = []
        self.rows: List[Row] = []
        self.looks: Dict[str, Optional[Signature]] = {}
        self.golden: Dict[Tuple[str, str, int], List[_File]] = {}
        target, golden = (
            _saved_files(self.options.target_index),
            _golden_files(self.options.golden_index),
        )
        for file in golden:
            self.golden.setdefault((file.node, file.call, file.number), []).append(file)
        written = sorted(golden if golden[0].target else target, key=lambda one: one.time)
        order = list(dict.fromkeys(file.node for file in written))
        if golden[0].target and len({file.time for file in golden}) < len(order):
            order = _by_what_they_read(order, self.options.golden_index)
        self.number = {node: number for number, node in enumerate(order, 1)}
        self.nodes = {file.node for file in golden}
        several = len({file.rank for file in target}) > 1
        for file in target:
            self._plan(file, several)
        self.missing = sorted(self.nodes - {file.node for file in target})
        damaged = [row for row in self.rows if row.cause == CORRUPT]
        if damaged and len(damaged) == len(self.rows):
            raise FormatError(
                "TARGET: none of its files of torch.save (%d) can be read; the first: %s"
                % (len(target), damaged[0].reason),
                hint="copy them again from the device's machine: a file is whole once its program "
                "has ended",
            )
        if not self.tasks:
            raise InputError(
                "GOLDEN: %s: no value of a node of TARGET was found in it" % self.options.golden,
                hint="TARGET's nodes are those of TorchAir's graph (%s, …); an FX dump (goldwatch "
                'golden fx dump, or debug.data_dump.type = "npy") or such files of another run '
                "have the same, with dump_config.data_dump_stage = 'original'" % target[0].node,
            )
        return ModelGraphs()

    def _plan(self, file: _File, by_rank: bool) -> None:
        rel = os.path.relpath(file.path, self.options.target)
        self.looks[rel] = look_at(file.path)
        row = Row(
            index=self.number.get(file.node, 0),
            op=file.node,
            op_type="",
            tensor="%s:output:0" % file.node,
            kind="output",
            verdict=PASS,
            tensor_index=0,
            group=(file.node,),
            golden=file.node,
            device=file.device,
            model="rank%s" % (file.rank or 0),
            model_id="0",
            step=file.call,
            target_file=rel,
        )
        try:
            tensors = open_torch(file.path)
        except (GoldwatchError, OSError) as error:
            self.rows.append(refuse(row, str(error), CORRUPT))
            return
        for index, tensor in enumerate(tensors):
            row = row.but(
                tensor="%s:output:%d" % (file.node, index),
                tensor_index=index,
                shape=tensor.shape,
                target_dtype=tensor.dtype.name,
            )
            found = self.golden.get((file.node, file.call, index), [])
            if by_rank or len({one.rank for one in found}) > 1:
                found = [one for one in found if one.rank == file.rank]
            if len(found) == 1:
                one = found[0]
                kind = "torch" if one.path.endswith(".pt") else "npy"
                where = os.path.relpath(one.path, self.options.golden)
                entry = GoldenEntry(one.path, where, one.node, index, 0, kind)
                named = row.but(op_type=one.target, golden_file=where)
                self.tasks.append(PairTask(named, tensor, entry, None, None))
            elif found:
                text = "several files of GOLDEN are of this node and call: %s" % ", ".join(
                    sorted(os.path.relpath(one.path, self.options.golden) for one in found)[:3]
                )
                self.rows.append(row.but(verdict=NOT_COMPARED, reason=text, cause=GOLDEN_MISSING))
            elif file.node in self.nodes:
                text = "GOLDEN has this node, but not output %d of call %s" % (index, file.call)
                self.rows.append(row.but(verdict=NOT_COMPARED, reason=text, cause=GOLDEN_MISSING))
            else:
                text = "GOLDEN has no such node: an input of the graph, or one that a pass made"
                self.rows.append(row.but(verdict=EXPECTED_ABSENT, reason=text))

    def feed(self, run: Run) -> None:
        """Compare all files."""
        golden = GoldenSet(self.options.golden, [])
        for task in self.tasks:
            golden.put(task.golden)
        # The calls were paired above: one without golden data has its rows all the same.
        run.goldens.steps = ONE
        begin_given_pairs(run, golden, self.tasks)
        run.notes.append(note("torch-files"))
        if self.missing:
            shown = ", ".join(self.missing[:_NAMES_SHOWN])
            run.notes.append(note("nodes-without-file", plural(len(self.missing), "node"), shown))
        compare_given_pairs(run.engine, self.tasks, self.rows, self.on_progress, self.looks)


def _by_what_they_read(nodes: Sequence[str], index: DumpIndex) -> List[str]:
    """Return nodes each behind those whose outputs it reads, by the bytes of the files of one call
    of an FX dump: where times are the same they tell no order.
    """
    made: Dict[str, List[str]] = {}
    read: Dict[str, List[str]] = {}
    for listing, names in index.files():
        for name, fx in zip(names, map(parse_fx_name, names)):
            if fx is not None:
                sha = sha256_of_file(os.path.join(listing.folder, name))
                if fx.op_name.endswith(".OUTPUT"):
                    made.setdefault(sha, []).append(fx.node)
                else:
                    read.setdefault(fx.node, []).append(sha)
        if made:
            break
    # What several nodes make tells nothing.
    makers = {sha: some[0] for sha, some in made.items() if len(some) == 1}
    before = {
        node: {makers[sha] for sha in read.get(node, ()) if sha in makers} - {node}
        for node in nodes
    }
    order: List[str] = []
    left = list(nodes)
    while left:
        node = next((node for node in left if not before[node].intersection(left)), left[0])
        left.remove(node)
        order.append(node)
    return order


def _saved_files(index: DumpIndex) -> List[_File]:
    files = []
    for listing, names in index.files():
        for match in filter(None, map(TORCH_NODE_FILE.match, names)):
            path = os.path.join(listing.folder, match.group(0))
            call, device = str(int(match.group("call"))), match.group("device") or "0"
            look = look_at(path)
            time = 0 if look is None else look.mtime_ns
            files.append(
                _File(path, rank_of(listing.folder), match.group("node"), device, call, time)
            )
    return files


def _golden_files(index: DumpIndex) -> List[_File]:
    """Return the outputs of an FX dump, or such files as TARGET's."""
    index.require()
    files = []
    for listing, names in index.files():
        place = fx_place(listing.folder)
        for name, fx in zip(names, map(parse_fx_name, names)):
            if fx is not None and fx.op_name.endswith(".OUTPUT"):
                path, call = os.path.join(listing.folder, name), str(int(place.token or 0))
                time = fx.timestamp
                files.append(_File(path, place.rank, fx.node, "0", call, time, fx.target, fx.index))
    files = files or [
        one._replace(number=index)
        for one in _saved_files(index)
        for index in range(_tensors_in(one.path))
    ]
    if not files:
        raise InputError(
            "GOLDEN: %s: neither an FX dump nor files of torch.save were found in it" % index.root,
            hint="goldwatch golden fx dump makes the FX dump of a script",
        )
    return files


def _tensors_in(path: str) -> int:
    try:
        return len(open_torch(path))
    except (GoldwatchError, OSError):
        return 1  # Its row will say so.
