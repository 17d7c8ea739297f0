"""What the child process does: reads the inputs, runs the model and saves its values."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any, Collection, Dict, Iterator, List, Mapping, Sequence, Set, Tuple

import numpy as np

from ...base.errors import EXIT_INTERRUPTED
from ...base.manifest import original_of
from ...base.naming import printable
from ...base.safe_reading import sha256_of_file
from ...netfiles.narrow_types import is_narrow
from ...netfiles.onnx_arrays import tensor_array
from ...netfiles.onnx_external_data import check_external
from ...netfiles.onnx_model import OnnxModel, OnnxNode
from ...netfiles.onnx_names import BRANCHES, NamedGraph
from ...netfiles.onnx_types import TYPES
from ...netfiles.onnx_value_headers import OnnxTensor
from ..child.serve import Parent
from ..golden_writer import GoldenWriter
from ..nonfinite import NOT_FINITE, count_not_finite, not_finite_of
from .input_files import Item
from .inputs import floats_of, load_feed, load_inputs, save_inputs
from .model_additions import inlined, node_of
from .onnxruntime_backend import Onnxruntime, Stop, Stopped
from .randomness import Randomness, constants_of
from .reference_backend import Reference
from .values_to_save import (
    NOT_NEEDED,
    Plan,
    ValueToSave,
    find_feed,
    is_branch,
    make_plan,
    skipped_branch,
    skipped_within,
    targets_of,
)

_PREFIX = "goldwatch/"
_If = Tuple[str, OnnxNode, str, Mapping[str, str]]


def with_branches(
    model: OnnxModel, plan: Plan, backend: Any, randomness: Randomness, tainted: Set[str]
) -> Tuple[bytes, List[ValueToSave], List[Tuple[str, str]], Dict[str, Tuple[OnnxNode, List[str]]]]:
    """Return what stands behind the graph to compute the branches that are taken, all targets in
    the order in which they are computed, what is skipped, and of each value of those branches and
    of their Ifs the node and what it is made of.

    An If's condition is computed first; the nodes of the branch that it takes then stand behind the
    main graph, where their values can be had: the same kernels compute them from the same inputs.

    Parameters
    ----------
    plan
        What is saved of the model.
    backend
        Computes the conditions.
    randomness, tainted
        What the model's nodes draw, and the values that come out of random numbers: those of the
        branches are added.
    """
    additions, targets, skipped = b"", list(plan.targets), list(plan.skipped)
    read_by: Dict[str, Tuple[OnnxNode, List[str]]] = {}
    bodies = {named.prefix: named for named in plan.graphs[1:]}
    waiting = _ifs(plan.main, {})
    with model.open() as file:
        while waiting:
            conditions = [_PREFIX + "condition/%d" % number for number in range(len(waiting))]
            identities = b"".join(
                node_of("Identity", [value], [name])
                for (_, _, value, _), name in zip(waiting, conditions)
            )
            taken = backend.fetch(additions + identities, conditions)
            inner: List[_If] = []
            for (name, node, _, around), condition in zip(waiting, taken):
                chosen = (
                    "then_branch" if bool(np.asarray(condition).reshape(-1)[0]) else "else_branch"
                )
                for attr in node.graphs:
                    if not is_branch(node, attr):
                        continue
                    body = bodies["%s_%d_%s/" % (name, BRANCHES[attr], attr)]
                    if attr != chosen:
                        skipped += _skipped_whole(body, name, bodies)
                        continue
                    data, renamed = inlined(file, body.graph, _PREFIX + body.prefix, around)
                    additions += data
                    _mark(randomness, body, renamed, tainted)
                    # Its operators run before the If has outputs.
                    at = next(
                        (i for i, each in enumerate(targets) if each.name == name), len(targets)
                    )
                    targets[at:at] = targets_of(body.names, body.graph.nodes, renamed, tainted)
                    given = [renamed.get(each.name, each.name) for each in body.graph.outputs]
                    for value in node.outputs:
                        read_by[around.get(value, value)] = node, [*node.inputs[:1], *given]
                    for each in body.graph.nodes:
                        read = [renamed.get(value, value) for value in each.inputs]
                        for value in each.outputs:
                            read_by[renamed.get(value, value)] = each, read
                    skipped += skipped_within(body)
                    inner += _ifs(body, renamed)
            waiting = inner
    return additions, targets, skipped, read_by


def _ifs(named: NamedGraph, renamed: Mapping[str, str]) -> List[_If]:
    """Return name, node and condition of the If nodes of a graph, and the new names of the values
    that their bodies can read.
    """
    return [
        (name, node, renamed.get(node.inputs[0], node.inputs[0]), renamed)
        for name, node in zip(named.names, named.graph.nodes)
        if node.inputs and any(is_branch(node, attr) for attr in node.graphs)
    ]


def _mark(
    randomness: Randomness, body: NamedGraph, renamed: Mapping[str, str], tainted: Set[str]
) -> None:
    """Mark the values of a branch that come out of random numbers, under their new names."""
    inside = {name for name in tainted if name not in renamed} | {
        name for name, new in renamed.items() if new in tainted
    }
    randomness.mark(body.graph.nodes, inside)
    tainted.update(renamed.get(name, name) for name in inside)


def _skipped_whole(
    body: NamedGraph, if_name: str, bodies: Mapping[str, NamedGraph]
) -> List[Tuple[str, str]]:
    skipped = skipped_branch(body, if_name)
    for name, node in zip(body.names, body.graph.nodes):
        for attr in node.graphs:
            if is_branch(node, attr):
                skipped += _skipped_whole(
                    bodies["%s_%d_%s/" % (name, BRANCHES[attr], attr)], if_name, bodies
                )
    return skipped


class Makers:
    """Tells of the manifest's entries whether what is not finite is their node's own.

    Parameters
    ----------
    tensors
        All entries.
    masks
        The inputs of the model whose infinite values are all negative, and which have no NaN.
    read_by
        As :func:`with_branches` returns it.
    """

    def __init__(
        self,
        model: OnnxModel,
        tensors: Sequence[Mapping[str, Any]],
        masks: Collection[str],
        read_by: Mapping[str, Tuple[OnnxNode, List[str]]],
    ) -> None:
        self._model, self._masks = model, masks
        self._found = {e["value"]: e[NOT_FINITE] for e in tensors if NOT_FINITE in e}
        self._nodes: Dict[str, Tuple[OnnxNode, List[str]]] = {}
        if self._found:
            self._nodes = {
                name: (node, node.inputs)
                for node in model.graph.nodes
                for name in node.outputs
                if name in self._found
            }
            self._nodes.update(read_by)
            self._constants = constants_of(model)

    def __call__(self, entry: Mapping[str, Any]) -> bool:
        """Tell whether a node made NaN of values without NaN, such as a Softmax of a row that a
        mask covers completely, or infinite values of finite ones.
        """
        if entry["type"] == "Input":
            return entry["value"] not in self._masks
        if entry["value"] not in self._nodes:
            return False
        node, names = self._nodes[entry["value"]]
        read = [self._found[name] for name in names if name in self._found]
        counts = [(each["nan"], each["inf"]) for each in read]
        counts += [self._count(tensor) for tensor in self._tensors(node)]
        if entry[NOT_FINITE]["nan"]:
            return not any(nan for nan, _ in counts)
        return not any(nan or infinite for nan, infinite in counts)

    def _tensors(self, node: OnnxNode) -> Iterator[OnnxTensor]:
        yield from node.tensors.values()
        for name in node.inputs:
            if name in self._constants:
                yield self._constants[name]

    def _count(self, tensor: OnnxTensor) -> Tuple[int, int]:
        """Return how many values of a constant are NaN, and how many infinite; one that lies in
        another file counts as finite.
        """
        entry = TYPES.get(tensor.dtype)
        if (
            entry is None
            or tensor.external is not None
            or not (is_narrow(entry.name) or np.dtype(entry.numpy or "u1").kind == "f")
        ):
            return 0, 0
        with self._model.open() as file:
            return count_not_finite(tensor_array(self._model.path, file, tensor))


INTERRUPTED = "interrupted before this tensor was saved"


class _HashThread(threading.Thread):
    """Hashes the model and its external data while it is loaded and runs."""

    def __init__(self, model: str, external: Sequence[str], parent: Parent) -> None:
        super().__init__(daemon=True)
        self._model, self._external, self._parent = model, external, parent
        self.document: Dict[str, Any] = {}
        self.original: Dict[str, Any] = {}

    def run(self) -> None:
        """Hash the files, and send the hashes as ``sums``, the files with them as ``original``."""
        sums = {path: sha256_of_file(path) for path in (self._model, *self._external)}
        self.document["model"] = sums[self._model]
        if self._external:
            folder = os.path.dirname(os.path.abspath(self._model))
            self.document["external_data"] = {
                os.path.relpath(path, folder): sums[path] for path in self._external
            }
        self.original = original_of("onnx", self._model, sums, data=self._external)
        self._parent.send(sums=self.document, original=self.original)


def work(job: Dict[str, Any], parent: Parent) -> int:
    """Do the job. The result is sent as ``result``; if the child is killed, ``begun``, ``sums`` and
    ``saved`` are used.
    """
    stop = Stop()
    signal.signal(signal.SIGINT, lambda number, frame: stop())
    try:
        run = _Run(job, parent, stop)
        if job["first_nodes"] is None:
            run.save()
        else:
            # To see whether the runtime lives through it.
            run.backend.run_first(job["first_nodes"])
    except Stopped:
        pass
    return EXIT_INTERRUPTED if stop.requested else 0


class _Run:
    def __init__(self, job: Dict[str, Any], parent: Parent, stop: Stop) -> None:
        self._job, self._parent, self._stop = job, parent, stop
        self._model = model = OnnxModel(job["model"])
        self._sums = _HashThread(job["model"], sorted(check_external(model)), parent)
        self._sums.start()
        items = {name: Item(*fields) for name, fields in job["items"].items()}
        shapes = {name: tuple(shape) for name, shape in job["shapes"].items()}
        self._inputs = load_inputs(
            model.graph.data_inputs, items, shapes, job["seed"], job["halves"]
        )
        plan = make_plan(model, ())
        feeds = [find_feed(model, plan.main, name) for name in job["feeds"]]
        self._tainted: Set[str] = set()
        with model.open() as file:
            fed_nodes = {id(feed.node) for feed in feeds}
            self._randomness = Randomness(
                model, file, {fed.name: fed.array for fed in self._inputs}
            )
            self._randomness.mark(
                [node for node in model.graph.nodes if id(node) not in fed_nodes], self._tainted
            )
            training = self._randomness.training(model.graph.nodes)
        self._training = [
            (node.op_type, printable(name))
            for name, node, trains in zip(plan.main.names, model.graph.nodes, training)
            if trains and id(node) not in fed_nodes
        ]
        self._plan = make_plan(model, self._tainted, feeds, plan.graphs)
        known = dict(model.graph.value_info, **{value.name: value for value in model.graph.outputs})
        floats = floats_of(model.graph)
        fed = [(feed, Item(*job["feeds"][name])) for name, feed in zip(job["feeds"], feeds)]
        self._fed_outputs = [
            load_feed(item, feed.value, known.get(feed.value), floats) for feed, item in fed
        ]
        self.backend = self._choose([feed.node for feed in feeds])
        self.backend.doing = lambda text: parent.send(doing=text)

    def _choose(self, without: List[OnnxNode]) -> Any:
        fed, seed = [*self._inputs, *self._fed_outputs], self._job["seed"] or 0
        if self._job["backend"] == "reference":
            return Reference(self._model, fed, without, seed, self._plan.main.names, self._stop)
        return Onnxruntime(
            self._model, fed, without, self._job["threads"], seed, self._plan.main.names, self._stop
        )

    def save(self) -> None:
        """Run the model and write everything; what was saved before Ctrl-C is kept."""
        begun = time.perf_counter()
        additions, targets, skipped, read_by = with_branches(
            self._model, self._plan, self.backend, self._randomness, self._tainted
        )
        keys = (
            None
            if self._job["selected"] is None
            else {(name, index) for name, index in self._job["selected"]}
        )
        chosen = [
            target for target in targets if keys is None or (target.name, target.index) in keys
        ]
        chosen_set = set(chosen)
        skipped += [(target.title, NOT_NEEDED) for target in targets if target not in chosen_set]
        writer = GoldenWriter(
            self._job["out"],
            self.backend.name,
            self.backend.version,
            {},
            self._job["force"],
            provisional=True,
        )
        with writer:
            for tensor, reason in skipped:
                writer.skip(tensor, reason)
            writer.reserve((target.name, target.index) for target in chosen)
            saved: Set[ValueToSave] = set()
            try:
                self._write(writer, additions, chosen, saved)
            except Stopped:
                if not saved:
                    raise
                for target in chosen:
                    if target not in saved:
                        writer.skip(target.title, INTERRUPTED)
            masks = [
                fed.name
                for fed in self._inputs
                if fed.array.dtype.kind == "f"
                and not np.any(np.isnan(fed.array) | np.isposinf(fed.array))
            ]
            makers = Makers(self._model, writer.tensors, masks, read_by)
            not_finite = not_finite_of(writer.tensors, makers)
            if not_finite is not None:
                writer.extra[NOT_FINITE] = not_finite
            self._sums.join()
            writer.source.update(self._source())
            writer.extra.update(
                original=self._sums.original,
                options=self.backend.options,
                seconds={"whole": round(time.perf_counter() - begun, 6)},
            )
            writer.close(complete=not self._stop.requested)
        self._parent.send(result=self._result(writer, chosen))

    def _write(
        self,
        writer: GoldenWriter,
        additions: bytes,
        chosen: Sequence[ValueToSave],
        saved: Set[ValueToSave],
    ) -> None:
        fed = {each.name: each for each in (*self._inputs, *self._fed_outputs)}
        known = [target for target in chosen if target.value in fed]
        computed = [target for target in chosen if target.value not in fed]
        total = len(chosen)
        results = (
            self.backend.results(additions, computed, self._job["budget_bytes"])
            if computed
            else iter(())
        )
        self._parent.progress(0, total)
        first = next(results, None)
        # Only now, so that a model that does not run leaves no file behind.
        writer.extra["inputs"] = save_inputs(writer.out, self._inputs, self._job["halves"])
        # Send the fields of the manifest besides the tensors: the parent writes it when this
        # process is killed.
        begun = {
            "backend": writer.backend,
            "backend_version": writer.backend_version,
            "source": self._source(),
            "skipped": writer.skipped,
        }
        self._parent.send(begun={**begun, **writer.extra, "options": self.backend.options})
        for target in known:
            self._put(writer, target, fed[target.value].array, fed[target.value].type.name, saved)
        while first is not None:
            target, array, dtype = first
            if isinstance(array, str):
                writer.skip(target.title, array)
                saved.add(target)
            else:
                self._put(writer, target, array, dtype, saved)
            self._parent.progress(len(saved), total)
            if self._stop.requested:
                raise Stopped
            del array, first
            first = next(results, None)

    def _put(
        self,
        writer: GoldenWriter,
        target: ValueToSave,
        array: np.ndarray,
        dtype: str,
        saved: Set[ValueToSave],
    ) -> None:
        fields: Dict[str, Any] = dict(target.fields)
        if is_narrow(dtype):
            fields["source_dtype"] = dtype
        writer.write(target.name, target.index, array, **fields)
        self._parent.send(saved=writer.tensors[-1])
        if self.backend.options["slices"] > 1:
            # Free memory for the values of the next slice.
            writer.catch_up()
        saved.add(target)

    def _source(self) -> Dict[str, Any]:
        document = dict(self._sums.document)
        document["inputs"] = {fed.name: fed.origin for fed in self._inputs}
        if self._fed_outputs:
            document["given"] = {fed.name: fed.origin for fed in self._fed_outputs}
        if self._job["seed"] is not None:
            document["random_seed"] = self._job["seed"]
        return document

    def _result(self, writer: GoldenWriter, chosen: Sequence[ValueToSave]) -> Dict[str, Any]:
        return {
            "backend": self.backend.name,
            "backend_version": self.backend.version,
            "out": writer.out,
            "complete": not self._stop.requested,
            "counts": writer.counts,
            "collisions": writer.collisions,
            "too_long": ["%s:%d" % key for key in writer.too_long],
            "nondeterministic": [
                printable(target.title) for target in chosen if target.nondeterministic
            ],
            "training": self._training,
            "not_finite": writer.extra.get(NOT_FINITE),
            "inputs": writer.extra.get("inputs", []),
            "overflowed": [
                [fed.name, fed.overflowed, fed.type.name]
                for fed in (*self._inputs, *self._fed_outputs)
                if fed.overflowed
            ],
            "options": self.backend.options,
        }
