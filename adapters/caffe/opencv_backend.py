"""The OpenCV backend: a normalised net in a child process, with every setting off that would change
or overwrite a layer's output.
"""

from __future__ import annotations

import os
from typing import Dict, Iterator, Sequence, Tuple, Union

import numpy as np

from ...element_types import element_count
from ...errors import EnvironmentProblem, InputError
from ...filesystem.atomic_writing import write_atomically
from ...naming import printable
from ...netfiles.prototxt_edits import encode
from .choose_backend import BACKENDS
from .opencv_rewrite import Normalised
from .opencv_whitelist import WAY_OUT
from .tensors_to_save import NO_TOP, TensorsToSave, TensorToSave


class OpencvBackend:
    """One net in OpenCV.

    Parameters
    ----------
    weights
        The .caffemodel's path, or its bytes.
    done
        The net in the form that OpenCV reads as Caffe does.
    folder
        For its file.
    """

    name = "opencv"

    def __init__(self, weights: Union[str, bytes], done: Normalised, folder: str) -> None:
        try:
            import cv2
        except ImportError as error:
            raise EnvironmentProblem(
                "OpenCV cannot be imported: %s" % error, hint=BACKENDS["opencv"].install
            ) from error
        if not hasattr(cv2.dnn, "readNetFromCaffe"):
            raise EnvironmentProblem(
                "OpenCV %s has no Caffe importer (4.5 to 4.x has)" % cv2.__version__,
                hint=BACKENDS["opencv"].install,
            )
        self._cv2 = cv2
        self.version = str(cv2.__version__)
        for blob, output in done.inputs.items():
            if self.version.startswith("4.5.") and len(output.shape) != 4:
                message = "OpenCV %s takes inputs of four axes only; input %s has the shape %s"
                hint = "install OpenCV 4.11 or later; or " + WAY_OUT
                raise InputError(
                    message % (self.version, printable(blob), list(output.shape)), hint=hint
                )
        self._inputs = {blob: output.name for blob, output in done.inputs.items()}
        self._outputs = {
            (output.layer, output.top_index): (output.name, output.shape) for output in done.outputs
        }
        self._unlike = done.unlike
        try:
            if isinstance(weights, bytes):
                self._net = cv2.dnn.readNetFromCaffe(
                    *[
                        np.frombuffer(data, np.uint8)
                        for data in (encode(done.text), weights)
                        if data
                    ]
                )
            else:
                path = os.path.join(folder, "normalised.prototxt")
                write_atomically(path, encode(done.text))
                self._net = cv2.dnn.readNetFromCaffe(path, weights)
        except cv2.error as error:
            raise self._problem("cannot load the net", error) from error
        self._net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
        self._net.setPreferableTarget(cv2.dnn.DNN_TARGET_CPU)
        self._net.enableFusion(False)
        if hasattr(self._net, "enableWinograd"):
            self._net.enableWinograd(False)

    def complete(self, targets: TensorsToSave) -> TensorsToSave:
        """Return the targets; a layer without a top makes nothing to save."""
        return TensorsToSave(
            targets.saved, targets.skipped + [(name, NO_TOP) for _, name in targets.topless], []
        )

    def size_bytes(self, targets: Sequence[TensorToSave], arrays: Dict[str, np.ndarray]) -> int:
        """Return the bytes of all values of the targets."""
        inputs = sum(arrays[target.top].nbytes for target in targets if target.type == "Input")
        shapes = [
            self._outputs[target.number, target.top_index][1]
            for target in targets
            if target.type != "Input"
        ]
        return inputs + 4 * sum(element_count(shape) for shape in shapes)

    def run(
        self, targets: Sequence[TensorToSave], arrays: Dict[str, np.ndarray]
    ) -> Iterator[Tuple[TensorToSave, np.ndarray]]:
        """Run the net once and yield every target with its values.

        Raises
        ------
        InputError
            OpenCV cannot run the net, returns another shape than Caffe would, or a NaN reached a
            layer where it counts.
        """
        for blob, array in arrays.items():
            self._net.setInput(array, self._inputs[blob])
        # All layers are asked for at once: only then none is computed twice, and none lends its
        # memory to another.
        names = [name for name, _ in self._outputs.values()]
        try:
            values = self._net.forwardAndRetrieve(names) if names else []
        except self._cv2.error as error:
            raise self._problem("cannot run the net", error) from error
        by_name = {name: np.asarray(value[0]) for name, value in zip(names, values)}
        self._refuse_unlike(
            dict(by_name, **{self._inputs[blob]: array for blob, array in arrays.items()})
        )
        for target in targets:
            if target.type == "Input":
                yield target, arrays[target.top]
                continue
            name, shape = self._outputs[target.number, target.top_index]
            array = by_name[name]
            if array.shape != shape:
                message = (
                    "layer %s (%s): OpenCV's output %d has the shape %s, Caffe's would have %s"
                )
                raise InputError(
                    message
                    % (target.name, target.type, target.top_index, list(array.shape), list(shape))
                )
            yield target, array

    def _refuse_unlike(self, shapes: Dict[str, np.ndarray]) -> None:
        """Raise InputError when a number reached a layer of which OpenCV makes something else than
        Caffe.
        """
        for layer, other, bottoms in self._unlike:
            # The least and the greatest number are NaN where any is: no copy is made.
            ends = [end for name in bottoms for end in (np.min(shapes[name]), np.max(shapes[name]))]
            what = ""
            if np.isnan(ends).any():
                what = "NaN reaches"
            elif other.infinite and np.isinf(ends).any():
                what = "an infinite number reaches"
            elif max(map(abs, ends)) > other.largest:
                what = "numbers of up to %.3g (more than %.3g) reach" % (
                    max(map(abs, ends)),
                    other.largest,
                )
            if what:
                message = (
                    "the opencv backend does not compute this net as Caffe does: %s layer %s; "
                    "nothing is saved"
                )
                raise InputError(
                    message % (what, layer), hint="look where it comes from; or " + WAY_OUT
                )

    def _problem(self, what: str, error: Exception) -> InputError:
        text = " ".join(str(error).split())
        return InputError(
            "OpenCV %s %s: %s" % (self.version, what, text[:400]),
            hint="check that the weights belong to this prototxt",
        )
