"""Pieces of a Caffe net run one by one: their weights are copied out of the whole file, which is
read once.
"""

from __future__ import annotations

import io
import os
import sys
from dataclasses import astuple
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ...base.atomic_writing import write_atomically
from ...base.errors import InputError
from ...base.naming import printable
from ...netfiles.caffe_net import Net, initial_state
from ...netfiles.caffe_v0_upgrade import read_upgraded
from ...netfiles.caffemodel import StoredWeights
from ...netfiles.caffemodel_cut import CaffeModel
from ...netfiles.prototxt_edits import Document, encode
from ..child.parent import LOG, STDERR, Task
from ..child.serve import Parent
from ..replaying.child import serve_pieces
from ..replaying.run import PieceRunner
from .child import no_weights
from .choose_backend import LAYER, Chosen, ModulePaths, choose_backend
from .tensors_to_save import targets_of
from .user_layers import UserLayers, parse_layers, refuse_absent
from .weights_check import check_names

Array = Any


class CaffeReplay(PieceRunner):
    """Runs pieces of a net in the user's Caffe or by our own operators.

    Parameters
    ----------
    backend
        ``auto``, ``caffe`` or ``numpy``.
    python
        The Python that has it; None: this one, or one that is found.
    prototxt, weights
        The whole net's files; no weights for a net that has none.
    weighted
        The layers that have weights by their types.
    layer_files
        ``TYPE=FILE.py`` each: layer types that the user computes, by the numpy backend.

    Raises
    ------
    UsageError
        ``layer_files`` and another backend, one of another form, or of a type that the net has not.
    EnvironmentProblem
        There is no such backend.
    FormatError, InputError
        The weights are no .caffemodel, cut short, or of another net.
    """

    def __init__(
        self,
        backend: str,
        python: Optional[str],
        prototxt: str,
        weights: Optional[str],
        weighted: Sequence[str],
        layer_files: Sequence[str] = (),
    ) -> None:
        self._paths = ModulePaths.of(prototxt)
        self._layers = parse_layers(layer_files)
        if self._layers:
            document = read_upgraded(prototxt)
            refuse_absent(Net(document, initial_state(document, "TEST", None, ())), self._layers)
        self.chosen: Chosen = choose_backend(
            backend, python, self._paths, LAYER if layer_files else None
        )
        self.name = self.chosen.backend
        self.notes = list(self.chosen.notes)
        if (
            weights is not None
            and weighted
            and not CaffeModel(weights).shapes.keys() & set(weighted)
        ):
            message = "%s: no weights for any layer of this net (%s)" % (
                printable(weights),
                printable(weighted[0]),
            )
            raise InputError(
                message,
                hint="weights are found by layer name: give the weights that belong to this "
                "prototxt",
            )
        self._weights = weights

    def _task(self, documents: List[Dict[str, Any]], folder: str) -> Task:
        weights = None if self._weights is None else os.path.abspath(self._weights)
        job: Dict[str, Any] = {
            "backend": self.name,
            "pieces": documents,
            "weights": weights,
            "folder": folder,
        }
        job.update(paths=astuple(self._paths), layer_files=self._layers)
        output = STDERR if self._layers else LOG
        return Task(
            self.chosen.python,
            "goldwatch.adapters.caffe.replay",
            job,
            environment=self.chosen.environment,
            output=output,
        )


def work(job: Dict[str, Any], parent: Parent) -> int:
    """Do the child's part."""
    before, after = job["paths"]
    sys.path[1:1] = before
    sys.path += after
    return serve_pieces(job, parent, _Runner(job).run, job["backend"])


class _Runner:
    def __init__(self, job: Dict[str, Any]) -> None:
        self._backend, self._folder = job["backend"], job["folder"]
        self._layers = UserLayers(job["layer_files"])
        self._model = None if job["weights"] is None else CaffeModel(job["weights"])
        self._shapes = {} if self._model is None else self._model.shapes
        self._stored = (
            no_weights
            if self._model is None or self._backend != "numpy"
            else StoredWeights(self._model.path)
        )

    def run(self, piece: Dict[str, Any], arrays: Dict[str, Array]) -> List[Array]:
        """Return the wanted outputs of one piece."""
        document = Document(piece["text"])
        net = Net(document, initial_state(document, "TEST", None, ()))
        path = "the net" if self._model is None else self._model.path
        check_names(net, self._shapes, path, fills=False)
        if self._backend == "numpy":
            from .numpy_backend import NumpyBackend

            backend: Any = NumpyBackend(net, self._stored, list(arrays), layers=self._layers)
        else:
            backend = self._caffe(net, piece["text"])
        tops = [(layer, index) for layer, index, _, _ in piece["outputs"]]
        targets = [
            target
            for target in backend.complete(targets_of(net)).saved
            if (target.layer, target.top_index) in tops
        ]
        by_top: Dict[Tuple[str, int], Array] = {
            (target.layer, target.top_index): array
            for target, array in backend.run(targets, arrays)
        }
        return [by_top[key] for key in tops]

    def _caffe(self, net: Net, text: str) -> Any:
        from .pycaffe_backend import PycaffeBackend

        records = io.BytesIO()
        if self._model is not None:
            self._model.write({layer.name for layer in net.layers}, records)
        files = {"prototxt": encode(text), "weights": records.getvalue()}
        paths = {what: os.path.join(self._folder, "piece." + what) for what in files}
        for what, data in files.items():
            write_atomically(paths[what], data)
        return PycaffeBackend(dict(paths, stages=[]), net)
