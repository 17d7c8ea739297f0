"""What the child process does: reads the inputs, runs the model and saves its values."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any, Dict, List, Sequence, Set

import numpy as np

from ...errors import EXIT_INTERRUPTED
from ...filesystem.sha256 import sha256_of_file
from ...naming import printable
from ...netfiles.narrow_types import is_narrow
from ...netfiles.onnx_external_data import check_external
from ...netfiles.onnx_model import OnnxModel, OnnxNode
from ..child.serve import Parent
from ..golden_writer import GoldenWriter
from ..manifest import original_of
from ..nonfinite import NOT_FINITE, not_finite_of
from .if_branches import with_branches
from .input_files import Item
from .inputs import floats_of, load_feed, load_inputs, save_inputs
from .nonfinite_nodes import Makers
from .onnxruntime_backend import Onnxruntime, Stop, Stopped
from .randomness import Randomness
from .reference_backend import Reference
from .values_to_save import NOT_NEEDED, ValueToSave, find_feed, make_plan

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
        _Run(job, parent, stop).save()
    except Stopped:
        pass
    return EXIT_INTERRUPTED if stop.requested else 0


class _Run:
    def __init__(self, job: Dict[str, Any], parent: Parent, stop: Stop) -> None:
        self._job, self._parent, self._stop = job, parent, stop
        self._model = model = OnnxModel(job["model"])
        self._sums = _HashThread(job["model"], sorted(check_external(model)), parent)
        self._sums.start()
        plan = make_plan(model, ())
        feeds = [find_feed(model, plan.main, name) for name in job["feeds"]]
        self._tainted: Set[str] = set()
        with model.open() as file:
            fed_nodes = {id(feed.node) for feed in feeds}
            self._randomness = Randomness(model, file)
            self._randomness.mark(
                [node for node in model.graph.nodes if id(node) not in fed_nodes], self._tainted
            )
            training = self._randomness.training(model.graph.nodes)
        self._training = [
            "%s (%s)" % (printable(name), node.op_type)
            for name, node, trains in zip(plan.main.names, model.graph.nodes, training)
            if trains and id(node) not in fed_nodes
        ]
        self._plan = make_plan(model, self._tainted, feeds, plan.graphs)
        items = {name: Item(*fields) for name, fields in job["items"].items()}
        shapes = {name: tuple(shape) for name, shape in job["shapes"].items()}
        self._inputs = load_inputs(
            model.graph.data_inputs, items, shapes, job["seed"], job["halves"]
        )
        known = dict(model.graph.value_info, **{value.name: value for value in model.graph.outputs})
        floats = floats_of(model.graph)
        fed = [(feed, Item(*job["feeds"][name])) for name, feed in zip(job["feeds"], feeds)]
        self._fed_outputs = [
            load_feed(item, feed.value, known.get(feed.value), floats) for feed, item in fed
        ]
        self._backend = self._choose([feed.node for feed in feeds])
        self._backend.doing = lambda text: parent.send(doing=text)

    def _choose(self, without: List[OnnxNode]) -> Any:
        fed, seed = [*self._inputs, *self._fed_outputs], self._job["seed"] or 0
        if self._job["backend"] == "reference":
            return Reference(self._model, fed, without, seed, self._stop)
        return Onnxruntime(
            self._model, fed, without, self._job["threads"], seed, self._plan.main.names, self._stop
        )

    def save(self) -> None:
        """Run the model and write everything; what was saved before Ctrl-C is kept."""
        begun = time.perf_counter()
        additions, targets, skipped = with_branches(
            self._model, self._plan, self._backend, self._randomness, self._tainted
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
            self._backend.name,
            self._backend.version,
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
            not_finite = not_finite_of(writer.tensors, Makers(self._model, writer.tensors, masks))
            if not_finite is not None:
                writer.extra[NOT_FINITE] = not_finite
            self._sums.join()
            writer.source.update(self._source())
            writer.extra.update(
                original=self._sums.original,
                options=self._backend.options,
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
            self._backend.results(additions, computed, self._job["budget_bytes"])
            if computed
            else iter(())
        )
        self._parent.progress(0, total)
        first = next(results, None)
        # Only now, so that a model that does not run leaves no file behind.
        writer.extra["inputs"] = save_inputs(writer.out, self._inputs, self._job["halves"])
        self._send_begun(writer)
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

    def _send_begun(self, writer: GoldenWriter) -> None:
        """Send the fields of the manifest besides the tensors: the parent writes it when this
        process is killed.
        """
        begun = {
            "backend": writer.backend,
            "backend_version": writer.backend_version,
            "source": self._source(),
            "skipped": writer.skipped,
        }
        self._parent.send(begun={**begun, **writer.extra, "options": self._backend.options})

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
        if self._backend.options["slices"] > 1:
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
            "backend": self._backend.name,
            "backend_version": self._backend.version,
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
            "options": self._backend.options,
        }
