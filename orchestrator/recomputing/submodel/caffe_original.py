"""Cuts of a Caffe net: their layers and blobs, and the text of the cut.

The rules were checked against real Caffe, bit for bit: a new Input per value that crosses the
border, in-place layers by the path they lie on, data layers at the border replaced.
"""

from __future__ import annotations

from typing import BinaryIO, Collection, Dict, Iterable, List, Mapping, Optional, Set, Tuple

from ...adapters.caffe.netinputs import net_inputs
from ...adapters.caffe.numpy_layer_types import has_weights, reads_data
from ...base.errors import InputError
from ...base.naming import free_name, printable
from ...netfiles.caffe_net import Net, initial_state
from ...netfiles.caffe_v0_upgrade import read_upgraded
from ...netfiles.parameters_in_words import Parameters, layer_parameters
from ...netfiles.protobuf_text import quote
from ...netfiles.prototxt_cut import check_versions, cut_net, input_layer
from ...netfiles.prototxt_edits import Document, encode
from .cut_definition import (
    Cut,
    CutInput,
    NamedNodes,
    Shape,
    numbers_of,
    quantised,
)
from .node_graph import NodeGraph, Value


class CaffeOriginal(NamedNodes):
    """A net filtered for TEST.

    Parameters
    ----------
    document
        The prototxt.

    Attributes
    ----------
    kind
        ``caffe``.
    names, types
        Of each layer, in order. A name may come twice.
    tensors
        For each layer the names of its top blobs.
    is_v1
        Whether its layers are of the V1 form, whose inputs are fields of the net.
    input_fields
        The blobs of the net's ``input`` fields.
    graph
        The data edges by versions of blobs, so that in-place layers are steps of their own.
    quantised
        The layers whose values are integers, which only the device's net has.

    Raises
    ------
    InputError, FormatError
        The file is no net of one form: V0, ``layer`` and ``layers`` mixed, empty, a solver …
    """

    kind = "caffe"
    noun = "layer"
    file_name = "dump.prototxt"
    weights_apart = True
    image_layout = "NCHW"

    def __init__(self, document: Document) -> None:
        self.net = Net(document, initial_state(document, "TEST", None, ()))
        self.path = document.path
        self.name = self.net.name
        self.is_v1 = self.net.layers[0].is_v1
        self.names = [layer.name for layer in self.net.layers]
        self.types = [layer.type for layer in self.net.layers]
        self.tensors = [[top.text for top in layer.tops] for layer in self.net.layers]
        self.graph = NodeGraph([origins for origins, _ in self.net.graph()])
        self.quantised = quantised(self.graph, self.types)
        self.input_fields = list(self.net.inputs)
        self.inner: Dict[str, str] = {}
        self._numbers = numbers_of(self.names)

    @classmethod
    def read(cls, path: str) -> CaffeOriginal:
        """Read a prototxt; raises as :func:`goldwatch.netfiles.caffe_v0_upgrade.read_upgraded` and
        the class.
        """
        return cls(read_upgraded(path))

    def lines(self, numbers: Iterable[int]) -> str:
        """Return as text the lines of the file where layers begin."""
        return "lines " + ", ".join(
            str(self.net.document.line(self.net.layers[number].start)) for number in numbers
        )

    def weighted(self, number: int) -> bool:
        """Return whether a layer has weights, by its type; False for custom types."""
        layer = self.net.layers[number]
        return has_weights(layer)

    def is_data(self, number: int) -> bool:
        """Return whether a layer reads or makes data by itself, which a cut replaces by inputs."""
        return reads_data(self.net.layers[number])

    def is_constant(self, number: int) -> bool:
        """Return whether a layer depends on constants only: none does."""
        return False

    def shapes(self) -> Dict[Value, Shape]:
        """Return the shapes that the prototxt itself gives to its inputs."""
        return {
            (entry.layer, entry.top_index): entry.shape
            for entry in net_inputs(self.net)
            if entry.shape
        }  # An input field is (-1, number) in both.

    def value_shapes(self) -> Dict[Tuple[str, int], Shape]:
        """Return the shapes of all values as the prototxt tells them, as far as the rules of its
        layers are known.
        """
        return {
            (self.input_fields[index], 0) if number < 0 else (self.names[number], index): shape
            for (number, index), shape in self.completed_shapes(self.shapes()).items()
        }

    def completed_shapes(self, known: Mapping[Value, Shape]) -> Dict[Value, Shape]:
        """Return known shapes and those to which they lead by the rules of Caffe's own layers."""
        from ...adapters.caffe.shapes import top_shapes

        shapes = dict(known)
        for number, layer in enumerate(self.net.layers):
            sources = self.graph.sources[number]
            if (
                layer.type == "Input"
                or not sources
                or any(value not in shapes for value in sources)
            ):
                continue
            try:
                tops = top_shapes(layer, [shapes[value] for value in sources])
            except InputError:
                # Caffe, or its code, will say what it thinks of this layer; here its shape is only
                # not known.
                continue
            for index, shape in enumerate(tops):
                shapes.setdefault((number, index), shape)
        return shapes

    def weight_shapes(self, number: int, shapes: Mapping[Value, Shape]) -> List[Shape]:
        """Return the shapes of a layer's weights, as Caffe derives them from its parameters and its
        bottom; none where these do not tell.
        """
        from ...adapters.caffe.shapes import weight_shapes

        sources = self.graph.sources[number]
        bottom = shapes.get(sources[0]) if sources else None
        try:
            return [] if bottom is None else list(weight_shapes(self.net.layers[number], bottom))
        except InputError:
            return []

    def parameters(self) -> List[Parameters]:
        """Return the parameters of each layer as text to display."""
        return [layer_parameters(layer) for layer in self.net.layers]

    def cut(
        self,
        chosen: Iterable[int],
        starts: Collection[int] = (),
        ends: Optional[Collection[int]] = None,
    ) -> Cut:
        """Return the cut of exactly these layers, data layers left out.

        Parameters
        ----------
        chosen
            Numbers of layers; :meth:`goldwatch.recomputing.submodel.node_graph.NodeGraph.between`
            gives those from a start to an end.
        starts
            The inputs that these layers read are of kind ``start``.
        ends
            The ends of the cut; None: each layer whose tops no layer inside reads.

        Raises
        ------
        InputError
            Only data layers are chosen; a blob is read that no layer makes; two layers of one name
            inside or at the border; the border lies between a quantising and a dequantising layer;
            a layer would read another version of a blob than in the whole net.
        """
        inside = {number for number in chosen if not self.is_data(number)}
        if not inside:
            raise InputError(
                "only data layers are between start and end, which a cut replaces by inputs: "
                "nothing would be left"
            )
        inputs = self._unchanged_inputs(inside) + self._new_inputs(inside, starts)
        self._refuse_quantised(inside, ends)
        self._refuse_duplicates(inside, {entry.value[0] for entry in inputs})
        outputs, outside = self._outputs_of(inside, set(), ends)
        return Cut(tuple(sorted(inside)), (), tuple(inputs), outputs, outside)

    def text(self, cut: Cut, shapes: Mapping[str, Shape]) -> str:
        """Return the prototxt of a cut.

        Parameters
        ----------
        shapes
            Shape of every new input (those that are not ``unchanged``) by name.
        """
        return cut_net(
            self.net,
            set(cut.layers),
            [
                (entry.name, entry.tensor, shapes[entry.name])
                for entry in cut.inputs
                if not entry.unchanged
            ],
        )

    def piece_text(self, cut: Cut, shapes: Mapping[str, Shape]) -> str:
        """Return the prototxt of a few layers, made of their own text only, so that the time does
        not depend on the size of the net; comments between the layers and fields of the whole net
        but its state are left out.

        Raises
        ------
        InputError
            A layer would read another version of a blob than in the whole net.
        """
        net = self.net
        new = [entry for entry in cut.inputs if not entry.unchanged]
        check_versions(net, self.graph.sources, set(cut.layers), [entry.tensor for entry in new])
        text, is_v1 = net.document.text, net.layers[cut.layers[0]].is_v1
        stages = " ".join("stage: " + quote(stage) for stage in sorted(net.state.stages))
        parts = ["state { %s }\n" % stages] if stages else []
        parts += [input_layer(entry.name, entry.tensor, shapes[entry.name], is_v1) for entry in new]
        for number in cut.layers:
            layer = net.layers[number]
            value = layer.field.values[layer.element]
            parts.append("%s %s\n" % (layer.field.name, text[value.start : value.end]))
        return "".join(parts)

    def input_text(self, entry: CutInput, dtype: str, shape: Shape) -> str:
        """Return the layer of an input."""
        return input_layer(entry.name, entry.tensor, shape, self.is_v1)

    def write(self, cut: Cut, inputs: Mapping[str, Tuple[str, Shape]], stream: BinaryIO) -> None:
        """Write the prototxt of a cut; parameters as of :meth:`files`."""
        stream.write(encode(self.text(cut, {name: shape for name, (_, shape) in inputs.items()})))

    def _unchanged_inputs(self, inside: Set[int]) -> List[CutInput]:
        inputs = []
        for number in sorted(inside):
            if self.types[number] != "Input":
                continue
            tops = self.tensors[number]
            for index, blob in enumerate(tops):
                name = (
                    self.names[number] if len(tops) == 1 else "%s_%d" % (self.names[number], index)
                )
                readers = self._readers((number, index), inside)
                inputs.append(
                    CutInput(
                        name,
                        blob,
                        self.names[number],
                        index,
                        (number, index),
                        "start",
                        readers,
                        unchanged=True,
                    )
                )
        return inputs

    def _new_inputs(self, inside: Set[int], starts: Collection[int]) -> List[CutInput]:
        taken = set(self.names)
        inputs: Dict[Value, CutInput] = {}
        by_blob: Dict[str, Value] = {}
        for number in sorted(inside):
            layer = self.net.layers[number]
            for place, value in enumerate(self.graph.sources[number]):
                if value[0] in inside or value in inputs:
                    continue
                blob = layer.bottoms[place].text
                if value[0] < -1:
                    raise InputError(
                        "layer %s reads blob %s, which nothing makes in phase TEST"
                        % (layer.title, printable(blob)),
                        hint="Caffe refuses this net as well: is a layer missing, or one of "
                        "another phase meant?",
                    )
                if by_blob.setdefault(blob, value) != value:
                    raise InputError(
                        "two versions of blob %s cross the border; Caffe refuses such a net"
                        % printable(blob)
                    )
                name = free_name("%s_input_%d" % (layer.name or layer.type, place), taken)
                readers = self._readers(value, inside)
                kind = self._kind(value, inside, starts)
                producer = self.names[value[0]] if value[0] >= 0 else blob
                inputs[value] = CutInput(
                    name,
                    blob,
                    producer,
                    max(value[1], 0) if value[0] >= 0 else 0,
                    value,
                    kind,
                    readers,
                )
        return list(inputs.values())

    def _refuse_duplicates(self, inside: Set[int], border: Set[int]) -> None:
        for number in sorted(inside | {number for number in border if number >= 0}):
            others = self._numbers[self.names[number]]
            if len(others) < 2 or (
                number in inside
                and number not in border
                and not any(self.weighted(other) for other in others)
            ):
                continue
            raise InputError(
                "layers in %s have the same name %s: their weights and golden data cannot be "
                "told apart" % (self.lines(others), printable(self.names[number]) or '""'),
                hint="give each its own name in the prototxt, and in the weights",
            )
