"""The Caffe backend: pycaffe in a child process, the original prototxt, each layer's tops taken
right after that layer ran.

So in-place layers do no harm: a blob is saved before the next layer writes over it. pycaffe's
calls: `_layer_names`, `_top_ids`, `_blobs`, `_forward`, present in every pycaffe of the BVLC 1.0
era.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ...base.errors import EnvironmentProblem, InputError
from ...base.naming import printable
from ...netfiles.caffe_net import Net
from .choose_backend import BACKENDS
from .tensors_to_save import NO_TOP, TensorsToSave, TensorToSave

AUTOMATIC_SPLIT = "automatic Split layer of Caffe, not in the prototxt"


class PycaffeBackend:
    """One net in Caffe.

    Parameters
    ----------
    job
        ``prototxt`` and ``weights`` (paths), ``level`` and ``stages``.
    net
        The same prototxt as goldwatch reads it.
    """

    name = "caffe"

    def __init__(self, job: Dict[str, Any], net: Net) -> None:
        try:
            import caffe

            make = caffe.Net
        except (ImportError, AttributeError) as error:
            raise EnvironmentProblem(
                "caffe.Net cannot be imported: %s" % error, hint=BACKENDS["caffe"].install
            ) from error
        self.version = str(getattr(caffe, "__version__", "unknown"))
        if hasattr(caffe, "set_mode_cpu"):
            caffe.set_mode_cpu()
        # Caffe sets the level that it is given (0 by default) over the file's own, and adds the
        # stages to the file's own.
        level = net.state.level
        if level or job["stages"]:
            made = make(
                job["prototxt"],
                caffe.TEST,
                weights=job["weights"],
                level=level,
                stages=list(job["stages"]),
            )
        else:
            made = make(job["prototxt"], job["weights"], caffe.TEST)
        self._setup(made, net)

    @classmethod
    def of(cls, made: Any, net: Net, ran: bool = False) -> PycaffeBackend:
        """Return the backend for a net that the user has made; one that ``ran`` already is only
        read.
        """
        backend = cls.__new__(cls)
        backend.version = str(getattr(sys.modules.get("caffe"), "__version__", "unknown"))
        backend._setup(made, net)
        backend._runs = not ran
        return backend

    def _setup(self, made: Any, net: Net) -> None:
        self.net = made
        self._numbers = layer_numbers(made, net)
        self._model = net
        self._runs = True

    def complete(self, targets: TensorsToSave) -> TensorsToSave:
        """Return the targets with the automatic tops of loss layers, and without the Split layers
        that Caffe added.
        """
        names = list(self.net._layer_names)
        by_layer: Dict[int, List[TensorToSave]] = {}
        for target in targets.saved:
            by_layer.setdefault(target.number, []).append(target)
        topless = dict(targets.topless)
        saved: List[TensorToSave] = list(by_layer.get(-1, []))
        skipped: List[Tuple[str, str]] = []
        for position, number in enumerate(self._numbers):
            n_tops = len(self.net._top_ids(position))
            if number is None:
                skipped += [
                    ("%s:%d" % (names[position], index), AUTOMATIC_SPLIT) for index in range(n_tops)
                ]
            if number is None or number < 0:
                continue
            layer = self._model.layers[number]
            tops = by_layer.get(number, [])
            automatic = (
                range(len(layer.tops), n_tops)
                if (tops or number in topless) and layer.name
                else range(0)
            )
            saved += tops + [
                TensorToSave(
                    number, index, layer.name, index, layer.name, "(automatic)", layer.type
                )
                for index in automatic
            ]
            if number in topless and not automatic:
                skipped.append((topless[number], NO_TOP))
        return TensorsToSave(saved, targets.skipped + skipped, [])

    def size_bytes(self, targets: Sequence[TensorToSave], arrays: Dict[str, np.ndarray]) -> int:
        """Return the bytes of all values of the targets."""
        self._set(arrays)
        keys = {(target.number, target.top_index) for target in targets if target.number >= 0}
        total = sum(array.nbytes for array in arrays.values())
        for position, number in enumerate(self._numbers):
            for index, blob in enumerate(self.net._top_ids(position)):
                if number is not None and (number, index) in keys:
                    total += int(self.net._blobs[blob].data.nbytes)
        return total

    def run(
        self, targets: Sequence[TensorToSave], arrays: Dict[str, np.ndarray]
    ) -> Iterator[Tuple[TensorToSave, np.ndarray]]:
        """Run the net layer by layer and yield a copy of each target right after its layer ran."""
        self._set(arrays)
        by_top = {(target.number, target.top_index): target for target in targets}
        for position, number in enumerate(self._numbers):
            if self._runs:
                self.net._forward(position, position)
            if number is None:
                continue
            for index, blob in enumerate(self.net._top_ids(position)):
                target = by_top.get((number, index))
                if target is not None:
                    # A view of Caffe's memory: the next layer may write over it.
                    yield target, np.array(self.net._blobs[blob].data)

    def _set(self, arrays: Dict[str, np.ndarray]) -> None:
        for blob, array in arrays.items():
            if blob not in self.net.blobs:
                raise InputError("Caffe's net has no blob %s" % printable(blob))
            self.net.blobs[blob].reshape(*array.shape)
            self.net.blobs[blob].data[...] = array
        if arrays:
            self.net.reshape()


def layer_numbers(made: Any, net: Net) -> List[Optional[int]]:
    """Return for each layer of Caffe's net its number in the prototxt: None for an automatic Split,
    -1 for the layer of ``input`` fields.

    Raises
    ------
    InputError
        The two are different nets.
    """
    names = list(made._layer_names)
    types = [str(layer.type) for layer in made.layers]
    numbers: List[Optional[int]] = []
    following = 0
    for position, (name, kind) in enumerate(zip(names, types)):
        layer = net.layers[following] if following < len(net.layers) else None
        if position == 0 and net.inputs and kind == "Input":
            numbers.append(-1)
        elif layer is not None and layer.name == name and layer.type in (kind, ""):
            numbers.append(following)
            following += 1
        elif kind == "Split":
            numbers.append(None)
        else:
            expected = (
                "%s (%s)" % (layer.title, layer.type) if layer is not None else "no further layer"
            )
            message = "Caffe's net has layer %s (%s) where the prototxt has %s" % (
                printable(name),
                kind,
                expected,
            )
            raise InputError(
                message,
                hint="give the prototxt from which the net was made, and the same phase, level and "
                "stages",
            )
    if following < len(net.layers):
        layer = net.layers[following]
        raise InputError(
            "Caffe's net lacks layer %s (%s) of the prototxt" % (layer.title, layer.type)
        )
    return numbers


def in_place_layers(made: Any) -> List[str]:
    """Return the names of the layers of Caffe's net that write over their bottom (or over memory
    that another layer's blob shares).
    """
    names = list(made._layer_names)
    return [
        name
        for position, name in enumerate(names)
        if set(made._bottom_ids(position)) & set(made._top_ids(position))
    ]
