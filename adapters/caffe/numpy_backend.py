"""The numpy backend: each layer computed by :mod:`goldwatch.operators` as Caffe does, float32 from
layer to layer, without any framework.

An in-place layer makes an array of its own, so no layer's output is written over. An array is let
go when its last reader has run.
"""

from __future__ import annotations

from collections import Counter
from typing import (
    Any,
    Callable,
    Collection,
    Container,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from ... import __version__
from ...base.errors import InputError, NotComparable
from ...base.naming import printable
from ...base.wording import listed
from ...netfiles.caffe_net import Layer, Net
from ...netfiles.caffe_params import parameters_of
from ...operators import CAFFE, Arithmetic, CannotCompute, Node, Value, compute
from .fillers import random_weights
from .netinputs import dummy
from .numpy_layer_types import (
    BVLC,
    IGNORED,
    LAYERS,
    SINKS,
    UNREAD,
    blobs_of,
    has_weights,
    own_parameters,
    reads_data,
)
from .tensors_to_save import NO_TOP, TensorsToSave, TensorToSave
from .user_layers import UserLayers
from .weights_check import shared_weights

Array = Any
Shape = Tuple[int, ...]
Key = Tuple[int, int]
Weights = Callable[[str], Optional[List[Array]]]
"""The weights of a layer by its name; None where there are none."""

WITHOUT_FILE = "there is no file for the data layer's blob %s"
_REFUSALS_SHOWN = 8
_FREE_FIELDS = frozenset(
    # The last one lets DeepLab's branch take bottoms of other sizes than before.
    "name type bottom top include exclude phase loss_weight param propagate_down blobs_lr "
    "weight_decay transform_param blobs "
    "strict_dim".split()
)
_EXACT = Arithmetic(0.0, 0.0, 0.0)


def refuse_unknown(net: Net, user_types: Sequence[str] = (), skipped: Container[int] = ()) -> None:
    """Refuse a net with a layer type or a parameter that is not computed here.

    Parameters
    ----------
    user_types
        Layer types that the user's own files compute.
    skipped
        Numbers of layers that are not run.

    Raises
    ------
    InputError
        Every such layer is named.
    """
    loose = [
        "layer %s (%s): bottom %s is made by no layer"
        % (layer.title, layer.type, printable(value.text))
        for layer, (origins, _) in zip(net.layers, net.graph())
        for value, origin in zip(layer.bottoms, origins)
        if origin[0] == -2
    ]
    problems = [
        problem
        for number, layer in enumerate(net.layers)
        if number not in skipped
        for problem in _problems(layer, net, user_types)
    ]
    if problems or loose:
        shown = listed(problems + loose, _REFUSALS_SHOWN, "; ")
        hint = (
            "compute such a layer yourself: `layer=TYPE=FILE.py`; or use a Caffe that knows it: "
            "`backend=caffe` `python=PATH`"
        )
        if not problems:
            hint = (
                "Caffe refuses such a net, too: correct the bottom, or choose the stage or level "
                "that makes it"
            )
        raise InputError("the numpy backend cannot compute this net: " + shown, hint=hint)


def _problems(layer: Layer, net: Net, user_types: Sequence[str]) -> Iterator[str]:
    where = "layer %s (%s)" % (layer.title, layer.type or "no type")
    if (
        layer.type in user_types
        or layer.type == "Input"
        or layer.type in SINKS
        or reads_data(layer)
    ):
        return
    known = LAYERS.get(layer.type)
    if known is None and not layer.tops:
        # It may write files; there is nothing of it to save.
        return
    if known is None:
        yield "%s: %s" % (
            where,
            "its code is Python of its own" if layer.type == "Python" else "the type is not known",
        )
        return
    if layer.phase == "TRAIN":
        yield "%s: phase TRAIN" % where
    for field in layer.message.fields:
        if field.name in known.params:
            for inner in layer.message.message(field.name).fields:
                name = "%s.%s" % (field.name, inner.name)
                if inner.name not in known.fields and not {
                    value.text for value in inner.values
                } <= IGNORED.get(name, frozenset()):
                    yield "%s: parameter %s (line %d) %s" % (
                        where,
                        name,
                        net.document.line(inner.start),
                        _why(name),
                    )
        elif field.name not in _FREE_FIELDS and not (field.name in UNREAD and known.source == BVLC):
            yield "%s: parameter %s (line %d) is not known" % (
                where,
                field.name,
                net.document.line(field.start),
            )


def _why(name: str) -> str:
    return (
        "draws other values each time"
        if name == "dropout_param.sample_weights_test"
        else "is not known"
    )


class NumpyBackend:
    """One net, layer by layer.

    Parameters
    ----------
    net
        The net.
    weights
        Gives a layer's weights.
    input_blobs
        The input blobs that will be set.
    seed
        Where weights are made up from it, for layers that have none.
    layers
        The user's own.

    Attributes
    ----------
    made
        The weights that were made up, by layer name.
    """

    name = "numpy"

    def __init__(
        self,
        net: Net,
        weights: Weights,
        input_blobs: Collection[str],
        seed: Optional[int] = None,
        layers: Optional[UserLayers] = None,
    ) -> None:
        self._layers = layers or UserLayers({})
        self.version = "goldwatch %s, numpy %s" % (__version__, np.__version__)
        self.made: Dict[str, List[Array]] = {}
        self._net = net
        self._input_blobs = input_blobs
        self._weights = weights
        self._seed = seed
        self._sources = [origins for origins, _ in net.graph()]
        self._owners = shared_weights(net)
        self._without_weights = self._without_file()
        numbers = {number for number, _ in self._without_weights}
        refuse_unknown(
            net,
            self._layers.types,
            {number for number in numbers if not reads_data(net.layers[number])},
        )

    def complete(self, targets: TensorsToSave) -> TensorsToSave:
        """Return the targets; a layer without a top makes nothing to save."""
        saved, skipped = [], [(name, NO_TOP) for _, name in targets.topless]
        for target in targets.saved:
            if (target.number, target.top_index) in self._without_weights:
                skipped.append(
                    (
                        target.title,
                        WITHOUT_FILE % self._without_weights[target.number, target.top_index],
                    )
                )
            else:
                saved.append(target)
        return TensorsToSave(saved, targets.skipped + skipped, [])

    def size_bytes(self, targets: Sequence[TensorToSave], arrays: Dict[str, Array]) -> int:
        """Return the bytes of the inputs: what the layers make is known when they have run."""
        return sum(array.nbytes for array in arrays.values())

    def run(
        self, targets: Sequence[TensorToSave], arrays: Mapping[str, Array]
    ) -> Iterator[Tuple[TensorToSave, Array]]:
        """Run the net once and yield every target with its values, float32.

        Raises
        ------
        InputError
            A layer cannot be computed: its parameters, weights or inputs are not what Caffe takes.
        """
        by_top: Dict[Key, TensorToSave] = {
            (target.number, target.top_index): target for target in targets
        }
        readers = Counter(source for sources in self._sources for source in sources)
        values: Dict[Key, Array] = {}
        for index, blob in enumerate(self._net.inputs):
            if (-1, index) in by_top:
                yield by_top[-1, index], arrays[blob]
            values[-1, index] = arrays[blob]
        last = max([target.number for target in targets] or [-1])
        for number, layer in enumerate(self._net.layers[: last + 1]):
            sources = self._sources[number]
            if layer.type == "Input" or reads_data(layer, self._layers.types):
                made: Sequence[Optional[Array]] = [
                    arrays[top.text] if top.text in arrays else dummy(layer, index)
                    for index, top in enumerate(layer.tops)
                ]
            elif any(values.get(source) is None for source in sources):
                made = [None] * len(layer.tops)
            elif layer.type in SINKS or not layer.tops:
                made = []
            else:
                made = self._computed(layer, [values[source] for source in sources])
            for index, array in enumerate(made):
                if array is not None and (number, index) in by_top:
                    yield by_top[number, index], array
                if readers[number, index]:
                    values[number, index] = array
            del made
            for source in sources:
                readers[source] -= 1
                if not readers[source]:
                    values.pop(source, None)

    def all_weights(self) -> Iterator[Tuple[str, str, List[Array]]]:
        """Yield name, type and weights of each layer that has some, those that were made up in the
        run included.
        """
        for layer in self._net.layers:
            blobs = self.made.get(layer.name) or (
                self._weights(layer.name) if has_weights(layer) else None
            )
            if blobs is None and layer.name in self._owners:
                blobs = self.made.get(self._owners[layer.name]) or self._weights(
                    self._owners[layer.name]
                )
            if blobs is not None:
                yield layer.name, layer.type, blobs

    def _without_file(self) -> Dict[Key, str]:
        """Return the tops that hang on a data layer's blob without a file, each with that blob's
        name.
        """
        without_file: Dict[Key, str] = {}
        for number, layer in enumerate(self._net.layers):
            reads = [
                without_file[source] for source in self._sources[number] if source in without_file
            ]
            for index, top in enumerate(layer.tops):
                if (
                    reads_data(layer, self._layers.types)
                    and top.text not in self._input_blobs
                    and dummy(layer, index) is None
                ):
                    without_file[number, index] = top.text
                elif reads:
                    without_file[number, index] = reads[0]
        return without_file

    def _computed(self, layer: Layer, bottoms: List[Array]) -> List[Array]:
        where = "layer %s (%s)" % (layer.title, layer.type)
        user_types = self._layers.types
        parameters = (
            parameters_of(layer.message, True)
            if layer.type in user_types
            else own_parameters(layer)
        )
        blobs = (
            self._blobs(layer, bottoms)
            if layer.type not in user_types
            else self._weights(layer.name) or []
        )
        try:
            if layer.type in user_types:
                made = self._layers.call(layer.type, bottoms, blobs, parameters, layer.name)
            else:
                node = Node(CAFFE, layer.type, parameters, layer.name, 0, len(layer.tops))
                made = [
                    value.array
                    for value in compute(node, [Value(array) for array in bottoms + blobs], _EXACT)
                ]
        except (CannotCompute, NotComparable) as error:
            shapes = ", ".join(str(list(array.shape)) for array in bottoms)
            raise InputError(
                "%s cannot be computed from bottoms of shape %s: %s" % (where, shapes, error)
            ) from error
        if len(made) < len(layer.tops) or (
            layer.type in user_types and len(made) > len(layer.tops)
        ):
            tops = "1 top" if len(layer.tops) == 1 else "%d tops" % len(layer.tops)
            raise InputError("%s has %s, its rule makes %d" % (where, tops, len(made)))
        with np.errstate(over="ignore"):
            arrays = [np.asarray(array, np.float32, order="C") for array in made[: len(layer.tops)]]
        if not all(array.size for array in arrays):
            raise InputError(
                "%s: bottoms of shape %s lead to an empty top"
                % (where, [list(array.shape) for array in bottoms])
            )
        return arrays

    def _blobs(self, layer: Layer, bottoms: List[Array]) -> List[Array]:
        """Return a layer's weights in the shapes that Caffe gives them."""
        if not has_weights(layer):
            return []
        where = "layer %s (%s)" % (layer.title, layer.type)
        shapes = [array.shape for array in bottoms]
        weights = self._weights(layer.name)
        if weights is None and layer.name in self._owners:
            weights = self._weights(self._owners[layer.name]) or self.made.get(
                self._owners[layer.name]
            )
        try:
            expected = [blob.shape for blob in blobs_of(layer, shapes)]
            if weights is None and self._seed is not None:
                if layer.name not in self.made:
                    self.made[layer.name] = random_weights(self._seed, layer, shapes)
                weights = self.made[layer.name]
        except (KeyError, IndexError, ValueError, TypeError, ZeroDivisionError) as error:
            raise InputError(
                "%s: its weights cannot be told: %s: %s" % (where, type(error).__name__, error)
            ) from error
        if weights is None:
            raise InputError(
                "%s: no weights" % where,
                hint="give the weights that belong to this prototxt, or `random_weights=SEED`",
            )
        if layer.type == "BN" and len(weights) in (2, 4):
            return weights
        if len(weights) != len(expected) or not all(
            _fits(array.shape, shape) for array, shape in zip(weights, expected)
        ):
            groups = [
                " and ".join(str(list(shape)) for shape in group)
                for group in ([array.shape for array in weights], expected)
            ]
            hint = (
                "give the weights that belong to this prototxt; num_output, kernel, group, "
                "bias_term and the bottom's channels decide"
            )
            raise InputError(
                "%s has weights of shape %s, the net needs %s" % (where, groups[0], groups[1]),
                hint=hint,
            )
        return [array.reshape(shape) for array, shape in zip(weights, expected)]


def _fits(blob_shape: Shape, expected: Shape) -> bool:
    """Tell whether weights have the shape that Caffe expects; older files fill four dimensions with
    ones, in front or behind.
    """
    strip = [tuple(size for size in shape if size != 1) for shape in (blob_shape, expected)]
    return tuple(blob_shape) == tuple(expected) or (
        (len(blob_shape) == 4 or len(expected) < 2) and strip[0] == strip[1]
    )
