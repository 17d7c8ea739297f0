"""The layers of a prototxt after the phase filter, and the version of each blob that they read and
make.

Semantics of the filter, of in-place layers and of shared memory: BVLC Caffe's net.cpp and
insert_splits.cpp.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Optional, Sequence, Set, Tuple

from ..base.errors import FormatError, InputError
from ..base.naming import printable
from .protobuf_text import Field, Message, Value
from .prototxt_edits import Document

_TYPES = {
    "NONE": (0, ""),
    "ABSVAL": (35, "AbsVal"),
    "ACCURACY": (1, "Accuracy"),
    "ARGMAX": (30, "ArgMax"),
    "BNLL": (2, "BNLL"),
    "CONCAT": (3, "Concat"),
    "CONTRASTIVE_LOSS": (37, "ContrastiveLoss"),
    "CONVOLUTION": (4, "Convolution"),
    "DATA": (5, "Data"),
    "DECONVOLUTION": (39, "Deconvolution"),
    "DROPOUT": (6, "Dropout"),
    "DUMMY_DATA": (32, "DummyData"),
    "EUCLIDEAN_LOSS": (7, "EuclideanLoss"),
    "ELTWISE": (25, "Eltwise"),
    "EXP": (38, "Exp"),
    "FLATTEN": (8, "Flatten"),
    "HDF5_DATA": (9, "HDF5Data"),
    "HDF5_OUTPUT": (10, "HDF5Output"),
    "HINGE_LOSS": (28, "HingeLoss"),
    "IM2COL": (11, "Im2col"),
    "IMAGE_DATA": (12, "ImageData"),
    "INFOGAIN_LOSS": (13, "InfogainLoss"),
    "INNER_PRODUCT": (14, "InnerProduct"),
    "LRN": (15, "LRN"),
    "MEMORY_DATA": (29, "MemoryData"),
    "MULTINOMIAL_LOGISTIC_LOSS": (16, "MultinomialLogisticLoss"),
    "MVN": (34, "MVN"),
    "POOLING": (17, "Pooling"),
    "POWER": (26, "Power"),
    "RELU": (18, "ReLU"),
    "SIGMOID": (19, "Sigmoid"),
    "SIGMOID_CROSS_ENTROPY_LOSS": (27, "SigmoidCrossEntropyLoss"),
    "SILENCE": (36, "Silence"),
    "SOFTMAX": (20, "Softmax"),
    "SOFTMAX_LOSS": (21, "SoftmaxWithLoss"),
    "SPLIT": (22, "Split"),
    "SLICE": (33, "Slice"),
    "TANH": (23, "TanH"),
    "WINDOW_DATA": (24, "WindowData"),
    "THRESHOLD": (31, "Threshold"),
}
# Words of branches from the time of V1, each with numbers of its own.
_OF_BRANCHES = {
    "BATCH_NORM": "BatchNorm",
    "BN": "BN",
    "CROP": "Crop",
    "DENSE_IMAGE_DATA": "DenseImageData",
    "IMAGE_SEG_DATA": "ImageSegData",
    "INTERP": "Interp",
    "NORMALIZE": "Normalize",
    "PERMUTE": "Permute",
    "PRELU": "PReLU",
    "PYTHON": "Python",
    "REDUCTION": "Reduction",
    "RESHAPE": "Reshape",
    "ROI_POOLING": "ROIPooling",
    "SCALE": "Scale",
    "SMOOTH_L1_LOSS": "SmoothL1Loss",
    "SPP": "SPP",
    "UPSAMPLE": "Upsample",
    "VIDEO_DATA": "VideoData",
}
_BY_NUMBER = {str(number): name for number, name in _TYPES.values()}


def v1_type(word: str) -> str:
    """Return the V2 type name of a V1 enum word (or number); an unknown word is returned as it
    is.
    """
    if word in _TYPES:
        return _TYPES[word][1]
    if word in _OF_BRANCHES:
        return _OF_BRANCHES[word]
    return _BY_NUMBER.get(word, word)


_SOLVER_FIELDS = (
    "net",
    "train_net",
    "test_net",
    "net_param",
    "base_lr",
    "lr_policy",
    "max_iter",
    "solver_mode",
    "snapshot",
    "test_iter",
)
SHARES_MEMORY = {"Flatten", "Reshape", "Split"}
SHARES_WHEN_SINGLE = {"Concat", "Slice"}


class State:
    """The state for include and exclude rules: phase, level and stages."""

    def __init__(self, phase: str = "TEST", level: int = 0, stages: Sequence[str] = ()) -> None:
        self.phase = phase
        self.level = level
        self.stages: FrozenSet[str] = frozenset(stages)

    def satisfies(self, rule: Message) -> bool:
        """Return whether a NetStateRule holds: phase, min_level, max_level, all of stage and none
        of not_stage.
        """
        if rule.has("phase") and phase_of(rule.text("phase")) != self.phase:
            return False
        if self.level < rule.integer("min_level", self.level) or self.level > rule.integer(
            "max_level", self.level
        ):
            return False
        return self.stages.issuperset(rule.texts("stage")) and not self.stages.intersection(
            rule.texts("not_stage")
        )


def phase_of(text: str) -> str:
    """Return ``TRAIN`` or ``TEST`` of a phase written by name or number."""
    phase = {"0": "TRAIN", "1": "TEST"}.get(text, text)
    if phase not in ("TRAIN", "TEST"):
        raise FormatError("phase %s is neither TRAIN nor TEST" % text)
    return phase


class Layer:
    """One layer (``layer`` or V1 ``layers``) of the text.

    Attributes
    ----------
    field, element
        The field that holds it, and its number in that field's values (a list form has several).
    type
        The V2 name of the type, also for V1 layers.
    bottoms, tops
        The string values, in order.
    """

    __slots__ = ("field", "element", "message", "name", "type", "bottoms", "tops", "rules", "is_v1")

    def __init__(self, field: Field, element: int, message: Message) -> None:
        self.field = field
        self.element = element
        self.message = message
        self.is_v1 = field.name == "layers"
        self.name = self.type = ""
        self.bottoms: List[Value] = []
        self.tops: List[Value] = []
        self.rules: List[Field] = []
        for inner in message.fields:
            kind = inner.name
            if kind == "bottom":
                self.bottoms += inner.values
            elif kind == "top":
                self.tops += inner.values
            elif kind == "name" and inner.values:
                self.name = inner.values[-1].text
            elif kind == "type" and inner.values:
                self.type = inner.values[-1].text
            elif kind in ("include", "exclude"):
                self.rules.append(inner)
        if self.is_v1:
            self.type = v1_type(self.type)

    @property
    def phase(self) -> str:
        """The layer's own phase, in which it runs whatever the net's phase is (nothing is filtered
        by it); empty when it has none.
        """
        text = self.message.text("phase")
        return phase_of(text) if text else ""

    @property
    def start(self) -> int:
        """Where the layer's message begins in the text."""
        return self.field.values[self.element].start

    @property
    def title(self) -> str:
        """The layer's name for messages; an unnamed one is described by its type and first top."""
        if self.name:
            return printable(self.name)
        return "unnamed %s layer%s" % (
            printable(self.type) or "",
            " (top %s)" % printable(self.tops[0].text) if self.tops else "",
        )

    def in_place(self, index: int) -> bool:
        """Return whether top ``index`` is written over the bottom of the same index."""
        return (
            index < len(self.bottoms)
            and index < len(self.tops)
            and self.bottoms[index].text == self.tops[index].text
        )

    @property
    def is_in_place(self) -> bool:
        """Return whether any top is written over its bottom."""
        return any(self.in_place(index) for index in range(len(self.tops)))


class Net:
    """The layers that stay after the phase filter, the layers that go, and the net's inputs
    (``input:`` fields).
    """

    def __init__(self, document: Document, state: State) -> None:
        root = document.root
        self.document = document
        self.name = root.text("name")
        self.inputs = [value.text for value in root.values("input")]
        layers = [
            Layer(field, number, value.message)
            for field in root.fields
            if field.name in ("layer", "layers")
            for number, value in enumerate(field.values)
            if value.message is not None
        ]
        _refuse_other_files(document, layers)
        file_state = root.message("state")
        self.state = State(state.phase, state.level, list(state.stages) + file_state.texts("stage"))
        self.layers: List[Layer] = []
        self.removed: List[Layer] = []
        for layer in layers:
            (self.layers if _included(layer, self.state) else self.removed).append(layer)
        for layer in self.layers:
            _check_strings(document, layer)
        if not self.layers:
            raise InputError(
                "none of its %d layers belongs to phase %s" % (len(layers), state.phase),
                "choose the other phase, or give its stages",
                document.path or "prototxt",
            )
        self._check_producers()

    def _check_producers(self) -> None:
        """Refuse a blob that is made twice (Caffe does, too)."""
        made: Dict[str, str] = {}
        for blob in self.inputs:
            if blob in made:
                self._repeated_names(blob, made[blob], "the net's inputs")
            made[blob] = "the net's inputs"
        for layer in self.layers:
            tops: Set[str] = set()
            for index, top in enumerate(layer.tops):
                blob = top.text
                if blob in tops or (blob in made and not layer.in_place(index)):
                    self._repeated_names(
                        blob, layer.title if blob in tops else made[blob], layer.title
                    )
                tops.add(blob)
                made[blob] = layer.name

    def _repeated_names(self, blob: str, first: str, second: str) -> None:
        where = (
            "both by %s and by %s" % (first, second) if first != second else "twice by %s" % first
        )
        raise InputError(
            "%s: blob %s is made %s" % (self.document.path or "prototxt", printable(blob), where),
            hint="Caffe refuses such a net, too: in place is top[i] == bottom[i] at the same i; "
            "give one of the two another top",
        )

    @property
    def blobs(self) -> Set[str]:
        """The names of all blobs of the kept layers and of the net's inputs."""
        names = set(self.inputs)
        for layer in self.layers:
            names.update(value.text for value in layer.bottoms)
            names.update(value.text for value in layer.tops)
        return names

    def graph(self) -> List[Tuple[List[Tuple[int, int]], int]]:
        """Return for each layer the origins ``(layer number, top index)`` of its bottoms, and its
        number of tops.

        A net input is ``(-1, number)``; a blob that nothing makes is ``(-2, -1)``.
        """
        current: Dict[str, Tuple[int, int]] = {
            blob: (-1, number) for number, blob in enumerate(self.inputs)
        }
        out = []
        for number, layer in enumerate(self.layers):
            out.append(
                ([current.get(value.text, (-2, -1)) for value in layer.bottoms], len(layer.tops))
            )
            for index, top in enumerate(layer.tops):
                current[top.text] = (number, index)
        return out


def initial_state(
    document: Document, phase: str, level: Optional[int], stages: Sequence[str]
) -> State:
    """Return the state to filter by, as ``caffe.Net(file, phase, level, stages)`` does.

    The given level is used (default 0), never the file's ``state { level }``; stages are added to
    the file's (by :class:`Net`). Source: the Net constructor of BVLC Caffe's net.cpp.

    Raises
    ------
    FormatError
        The file's own level is no number, which Caffe refuses.
    """
    try:
        document.root.message("state").integer("level", 0)
    except FormatError as error:
        raise FormatError("state: %s" % error.message, document.path) from error
    return State(phase, level or 0, stages)


def shares_memory(layer: Layer) -> bool:
    """Return whether Caffe gives this layer's tops the memory of its first bottom."""
    return layer.type in SHARES_MEMORY or (
        layer.type in SHARES_WHEN_SINGLE and len(layer.bottoms) == 1 and len(layer.tops) == 1
    )


def eltwise_is_sum(layer: Layer) -> bool:
    """Return whether an Eltwise layer adds (the default operation)."""
    return layer.type == "Eltwise" and layer.message.message("eltwise_param").text(
        "operation", "SUM"
    ) in ("SUM", "1")


def _refuse_other_files(document: Document, layers: List[Layer]) -> None:
    root, where = document.root, document.path or "prototxt"
    if any(layer.is_v1 and layer.message.has("layer") for layer in layers):
        raise InputError(
            "a V0 net (layers { layer { … } }), whose names and parameters mean something else",
            "upgrade it once with Caffe's own upgrade_net_proto_text",
            where,
        )
    if len({layer.is_v1 for layer in layers}) == 2:
        raise InputError(
            "both `layer` and V1 `layers`; Caffe ignores the `layer` ones of such a net",
            "upgrade it once with Caffe's own upgrade_net_proto_text",
            where,
        )
    if layers:
        return
    if not root.fields:
        raise InputError("the file is empty", path=where)
    solver = [name for name in _SOLVER_FIELDS if root.has(name)]
    if solver:
        net = root.text("net") or root.text("train_net")
        hint = (
            "give the net that it names: %s" % printable(net)
            if net
            else "give the net's own prototxt"
        )
        raise InputError("a solver file (it has %s), not a net" % ", ".join(solver), hint, where)
    raise InputError(
        "a net without layers",
        "a net has `layer { … }` or V1 `layers { … }` messages",
        where,
    )


def _included(layer: Layer, state: State) -> bool:
    if not layer.rules:
        return True
    include = [
        message for field in layer.rules if field.name == "include" for message in _rules(field)
    ]
    exclude = [
        message for field in layer.rules if field.name == "exclude" for message in _rules(field)
    ]
    if include and exclude:
        raise InputError(
            "layer %s has include rules and exclude rules; Caffe allows one kind only" % layer.title
        )
    if include:
        return any(state.satisfies(rule) for rule in include)
    return not any(state.satisfies(rule) for rule in exclude)


def _rules(field: Field) -> List[Message]:
    return [value.message for value in field.values if value.message is not None]


def _check_strings(document: Document, layer: Layer) -> None:
    for value in layer.bottoms + layer.tops:
        if not value.pieces:
            message = "line %d: a blob's name must be a quoted string, got %s" % (
                document.line(value.start),
                value.text or "{",
            )
            raise FormatError(message, document.path)


def dropout_is_plain(layer: Layer) -> bool:
    """Return whether a Dropout layer is the identity at TEST: one bottom and top, its own phase not
    TRAIN, no other branch's field.
    """
    if layer.type != "Dropout" or len(layer.bottoms) != 1 or len(layer.tops) != 1:
        return False
    known = {
        "name",
        "type",
        "bottom",
        "top",
        "include",
        "exclude",
        "phase",
        "loss_weight",
        "param",
        "propagate_down",
        "dropout_param",
    }
    if layer.phase == "TRAIN" or any(field.name not in known for field in layer.message.fields):
        return False
    return all(
        field.name == "dropout_ratio" for field in layer.message.message("dropout_param").fields
    )
