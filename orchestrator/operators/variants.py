"""What an operator may compute instead: each attribute, order of inputs, weights or function that a
converter may have read otherwise.

Each module declares, beside its formulas, what its operators may read otherwise (:func:`declare`).
A variant is a node that can be computed like any other.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, permutations, product
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np

from .registry import (
    ASCEND,
    ONNX,
    UNFIT,
    CannotCompute,
    Inputs,
    Node,
    compute,
    register_operators,
    same_operator,
)
from .value_with_error import Arithmetic, Value

Array = Any
ANY = "; any other number, fitted"
Alternatives = Union[Sequence[Any], Callable[[Node, Inputs], Iterable[Any]]]
"""The values of an attribute or input that keep the shape of the output, or what tells them."""

AS_IT_IS = "as it is"
FACTOR_OF = "a factor of "
"""What the model says of an input that the device took otherwise."""
MOST_ORDERED = 4
"""Of up to so many inputs or outputs each order is a variant; of more only two exchanged, or all
reversed: 24 orders of four, 120 of five."""
_MOST_SHARES = 256
"""Ways in which the pads of all axes are shared between begin and end; chosen by time, no trial."""


class Variant(NamedTuple):
    """One thing that an operator may have read otherwise.

    Attributes
    ----------
    name
        What it is: an attribute, an input; empty: the function itself.
    device, model
        What the device would have taken, and what the model says.
    node
        What is computed then.
    inputs, outputs
        What becomes of the node's inputs before, and of its outputs behind; None: nothing.
    instead
        Computes the outputs of the node's inputs in its place; None: the node does.
    """

    name: str
    device: str
    model: str
    node: Node
    inputs: Optional[Callable[[List[Optional[Value]]], List[Optional[Value]]]] = None
    outputs: Optional[Callable[[List[Value]], List[Value]]] = None
    instead: Optional[Callable[[Inputs, Arithmetic], List[Value]]] = None

    def compute(self, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
        """Compute it; raises as :func:`goldwatch.operators.compute`."""
        try:
            with np.errstate(all="ignore"):
                given = list(inputs) if self.inputs is None else self.inputs(list(inputs))
                if self.instead is not None:
                    return self.instead(given, arithmetic)
                outputs = compute(self.node, given, arithmetic)
                return outputs if self.outputs is None else self.outputs(outputs)
        except UNFIT as error:
            raise CannotCompute(str(error)) from error


class Fit(NamedTuple):
    """A number that an operator may have taken otherwise, whatever it was.

    Attributes
    ----------
    name
        What it is.
    own
        What the model says.
    variant
        Returns the variant that takes another number.
    whole
        Only whole numbers can be.
    least
        The smallest number that can be.
    """

    name: str
    own: float
    variant: Callable[[float], Variant]
    whole: bool = False
    least: float = -np.inf


class Reading(NamedTuple):
    """What of an operator may be read otherwise.

    Attributes
    ----------
    name, shown
        What it is, and its alternatives in words.
    variants
        Yields those of a node.
    fits
        Yields the numbers of a node that may be any; None: there are none.
    together
        Two things at once, which go together: tried where no single one agrees.
    """

    name: str
    shown: str
    variants: Callable[[Node, Inputs], Iterator[Variant]]
    fits: Optional[Callable[[Node, Inputs], Iterator[Fit]]] = None
    together: bool = False


_READINGS: Dict[Tuple[str, str], Tuple[Reading, ...]] = {}


def declare(types: str, *readings: Reading, dialect: str = ONNX) -> None:
    """Declare what operators of some types (separated by blanks) may read otherwise, the commonest
    first.
    """
    for kind in types.split():
        _READINGS[dialect, kind] = _READINGS.get((dialect, kind), ()) + readings


def variants_of(node: Node, inputs: Inputs, together: bool = False) -> Iterator[Variant]:
    """Yield what a node may compute instead.

    Parameters
    ----------
    inputs
        Of the node, as they are computed.
    together
        Two things at once, or single ones.
    """
    for reading in _readings_of(node):
        if reading.together == together:
            yield from reading.variants(node, inputs)


def fits_of(node: Node, inputs: Inputs) -> Iterator[Fit]:
    """Yield the numbers of a node that may have been any other; parameters as of
    :func:`variants_of`.
    """
    for reading in _readings_of(node):
        if reading.fits is not None:
            yield from reading.fits(node, inputs)


def _readings_of(node: Node) -> Sequence[Reading]:
    """Return what a node may read otherwise; of a type of Ascend IR what that may which is the same
    operator.
    """
    key = (node.dialect, node.type)
    return declared().get(same_operator(node.type) if node.dialect == ASCEND else key, ())


def declared() -> Mapping[Tuple[str, str], Sequence[Reading]]:
    """Return all readings by dialect and type."""
    register_operators()
    return _READINGS


def text_of(value: Any) -> str:
    """Return an attribute's value as a message shows it."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return "[%s]" % ", ".join(text_of(entry) for entry in np.asarray(value).ravel().tolist())
    if isinstance(value, float):
        # -0 is 0.
        return "%.6g" % (value + 0.0)
    return str(value)


def _alternatives(alternatives: Alternatives, node: Node, inputs: Inputs) -> Iterable[Any]:
    return alternatives(node, inputs) if callable(alternatives) else alternatives


def _shown(alternatives: Alternatives) -> str:
    return (
        " ".join((alternatives.__doc__ or "others that fit").split())
        if callable(alternatives)
        else ", ".join(map(text_of, alternatives))
    )


def attribute(
    name: str, alternatives: Alternatives, default: Any = None, fitted: bool = False, says: str = ""
) -> Reading:
    """Declare an attribute with alternatives.

    Parameters
    ----------
    default
        What the dialect takes where it is not there: a value, or a function of node and inputs;
        None: then there is nothing to read otherwise.
    fitted
        It is a number that may be any other: an epsilon none below 0, a whole one none below 1.
    says
        How it is called besides, before its name.
    """
    called = "%s (%s)" % (says, name) if says else name

    def own_of(node: Node, inputs: Inputs) -> Any:
        return node.attributes.get(name, default(node, inputs) if callable(default) else default)

    def changed(node: Node, own: Any, value: Any) -> Variant:
        instead = replace(node, attributes={**node.attributes, name: value})
        return Variant(called, text_of(value), text_of(own), instead)

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        own = own_of(node, inputs)
        for value in () if own is None else _alternatives(alternatives, node, inputs):
            if text_of(value) != text_of(own):
                yield changed(node, own, value)

    def fits(node: Node, inputs: Inputs) -> Iterator[Fit]:
        own = own_of(node, inputs)
        if own is not None:
            whole = isinstance(own, (int, np.integer))
            least = 1.0 if whole else 0.0 if name.startswith("eps") else -np.inf

            def variant(value: float) -> Variant:
                return changed(node, own, int(np.rint(value)) if whole else value)

            yield Fit(called, float(own), variant, whole, least)

    shown = _shown(alternatives) + (ANY if fitted else "")
    return Reading(called, shown, variants, fits if fitted else None)


def whole_input(number: int, name: str, alternatives: Callable[[Node, Inputs], Any]) -> Reading:
    """Declare an input of numbers that an attribute was in earlier versions, with alternatives."""

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        own = inputs[number] if number < len(inputs) else None
        for value in () if own is None else alternatives(node, inputs):
            array = np.asarray(value, own.array.dtype).reshape(own.array.shape)  # type: ignore[union-attr]
            if np.array_equal(array, own.array):  # type: ignore[union-attr]
                continue

            def taken(given: List[Optional[Value]], array: Array = array) -> List[Optional[Value]]:
                return [*given[:number], Value(array), *given[number + 1 :]]

            yield Variant(name, text_of(array), text_of(own.array), node, taken)  # type: ignore[union-attr]

    return Reading(name, _shown(alternatives), variants)


def changed_input(
    number: int, name: str, changes: Sequence[Tuple[str, Callable[[Array], Optional[Array]]]]
) -> Reading:
    """Declare an input (weights, mostly) that may be taken in other ways.

    Parameters
    ----------
    changes
        In words, and as a function of the array; of what cannot be it returns None.
    """

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        value = inputs[number] if number < len(inputs) else None
        if value is None:
            return
        for words, change in changes:
            array = change(value.array)
            if array is None or (
                array.shape == value.array.shape and np.array_equal(array, value.array)
            ):
                continue

            def taken(
                given: List[Optional[Value]], change: Callable[[Array], Array] = change
            ) -> List[Optional[Value]]:
                own = given[number]
                assert own is not None
                error = None
                # Errors go along where values are only moved.
                if own.error is not None and not np.any(change(np.zeros(own.array.shape))):
                    error = np.abs(change(np.broadcast_to(own.error, own.array.shape)))
                return [*given[:number], Value(change(own.array), error), *given[number + 1 :]]

            own_words, shown = AS_IT_IS, words
            if value.array.size == 1 and array.size == 1:
                own_words, number_text = (text_of(one.reshape(-1)[0].item()) for one in
                                          (value.array, np.asarray(array)))  # fmt: skip
                shown = words if words == number_text else "%s (%s)" % (number_text, words)
            yield Variant(name, shown, own_words, node, taken)

    return Reading(name, ", ".join(words for words, _ in changes), variants)


def other_number(number: int, name: str, numbers: Sequence[float], most: float = np.inf) -> Reading:
    """Declare an input of one number for all, whose magnitude is at most ``most``, with
    alternatives; it may be any other number, too.
    """

    def filled(value: float) -> Callable[[Array], Optional[Array]]:
        def change(array: Array) -> Optional[Array]:
            is_one = array.size == 1 and abs(float(array.reshape(-1)[0])) <= most
            return np.full_like(array, value) if is_one else None

        return change

    listed = changed_input(number, name, [("%.6g" % value, filled(value)) for value in numbers])

    def fits(node: Node, inputs: Inputs) -> Iterator[Fit]:
        value = inputs[number] if number < len(inputs) else None
        if value is None or value.array.size != 1 or abs(float(value.array.reshape(-1)[0])) > most:
            return
        own = value.array.reshape(-1)[0].item()

        def variant(instead: float) -> Variant:
            def taken(given: List[Optional[Value]]) -> List[Optional[Value]]:
                one = Value(np.full_like(value.array, instead))  # type: ignore[union-attr]
                return [*given[:number], one, *given[number + 1 :]]

            return Variant(name, text_of(instead), text_of(own), node, taken)

        if np.isfinite(own):
            yield Fit(name, float(own), variant, value.array.dtype.kind in "iu")

    return listed._replace(shown=listed.shown + ANY if numbers else ANY[2:], fits=fits)


def missing_input(number: int, name: str, neutral: float = 0.0) -> Reading:
    """Declare an input (a bias, a gain, an initial state) that may be left out: then it is
    ``neutral``.
    """
    return missing_inputs({number: neutral}, name)


def missing_inputs(neutral: Mapping[int, float], name: str) -> Reading:
    """Declare inputs that may be left out together, by number with what they are then."""

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        if all(
            number < len(inputs)
            and inputs[number] is not None
            and np.any(inputs[number].array != value)  # type: ignore[union-attr]
            for number, value in neutral.items()
        ):

            def taken(given: List[Optional[Value]]) -> List[Optional[Value]]:
                return [
                    Value(np.full_like(value.array, neutral[number]))
                    if number in neutral and value is not None
                    else value
                    for number, value in enumerate(given)
                ]

            yield Variant(name, "missing", AS_IT_IS, node, taken)

    return Reading(name, "missing", variants)


def pad_shares(begin: Sequence[int], end: Sequence[int]) -> List[List[int]]:
    """Return pads in which begin and end of each axis have each other share of their sum."""
    totals = [first + last for first, last in zip(begin, end)]
    shares = product(*(range(total + 1) if total > 0 else (total,) for total in totals))
    return [
        [*first, *(total - one for total, one in zip(totals, first))]
        for first in islice(shares, _MOST_SHARES)
    ]


def replaced(number: int, change: Callable[[Array], Array]) -> Callable[[Any], Any]:
    """Return what puts a changed array in the place of an input."""

    def taken(given: List[Optional[Value]]) -> List[Optional[Value]]:
        own = given[number]
        assert own is not None
        return [*given[:number], Value(change(own.array)), *given[number + 1 :]]

    return taken


def along_other_axis() -> Reading:
    """Declare inputs of one axis (a bias, a gain for each channel) that may be taken along another
    axis of the same size.
    """

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        shape = np.broadcast(*(one.array for one in inputs if one is not None)).shape
        for number, value in enumerate(inputs):
            if value is None or value.array.size < 2 or max(value.array.shape) < value.array.size:
                continue
            own = len(shape) - value.array.ndim + int(np.argmax(value.array.shape))
            for axis in range(len(shape)):
                if axis != own and shape[axis] == value.array.size:
                    wanted = [1] * len(shape)
                    wanted[axis] = -1

                    def change(array: Array, wanted: Sequence[int] = wanted) -> Array:
                        return array.reshape(wanted)

                    yield Variant(
                        input_name(node, number),
                        "along axis %d" % axis,
                        "along axis %d" % own,
                        node,
                        replaced(number, change),
                    )

    return Reading("an input of one axis", "along each other axis of its size", variants)


def factor_of_input(number: int = 0) -> Reading:
    """Declare that an input may be multiplied by a number before: of functions that are not linear,
    and sums, where no factor of the output is that; one number alone is a constant.
    """

    def fits(node: Node, inputs: Inputs) -> Iterator[Fit]:
        value = inputs[number] if number < len(inputs) else None
        if value is None or not value.is_float or (len(inputs) > 1 and value.array.size == 1):
            return

        def variant(factor: float) -> Variant:
            def change(array: Array) -> Array:
                return array * array.dtype.type(factor)

            name = FACTOR_OF + input_name(node, number)
            return Variant(name, text_of(factor), AS_IT_IS, node, replaced(number, change))

        yield Fit(FACTOR_OF + input_name(node, number), 1.0, variant)

    return Reading("a factor of its input", ANY[2:], lambda node, inputs: iter(()), fits)


def computed_instead(
    name: str,
    shown: str,
    ways: Callable[[Node, Inputs], Iterable[Tuple[str, str, Callable[..., List[Value]]]]],
) -> Reading:
    """Declare other computations: ``ways`` yields what the device would have computed, what the
    model says, and a function of inputs and arithmetic.
    """

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        for device, model, function in ways(node, inputs):
            yield Variant(name, device, model, node, None, None, function)

    return Reading(name or "the function", shown, variants)


_INPUT_NAMES = {
    "Conv ConvTranspose": ("its input", "the weights", "the bias"),
    "DeformConv": ("its input", "the weights", "its offsets", "the bias", "the mask"),
    "Gemm": ("its input 0", "the weights", "the bias"),
    "MatMul": ("its input 0", "the weights"),
    "QuantizeLinear DequantizeLinear": ("its input", "the scale", "the zero point"),
    "QLinearConv QLinearMatMul": (
        "its input", "the scale of its input", "the zero point of its input", "the weights",
        "the scale of the weights", "the zero point of the weights", "the scale of the output",
        "the zero point of the output", "the bias",
    ),
    "ConvInteger MatMulInteger": (
        "its input", "the weights", "the zero point of its input", "the zero point of the weights",
    ),
    "BatchNormalization": ("its input", "the scale", "the bias", "the mean", "the variance"),
    "LayerNormalization InstanceNormalization GroupNormalization": (
        "its input", "the scale", "the bias",
    ),
    "PRelu": ("its input", "the slope"),
    "LSTM GRU RNN": (
        "its input", "the weights W", "the weights R", "the bias B", "sequence_lens", "initial_h",
        "initial_c", "the peepholes P",
    ),
    "Gather GatherElements GatherND": ("its table", "its indices"),
    "ScatterElements ScatterND": ("its data", "its indices", "its updates"),
    "Slice": ("its input", "its starts", "its ends", "its axes", "its steps"),
    "Pad": ("its input", "its pads", "its constant_value", "its axes"),
    "Resize": ("its input", "its roi", "its scales", "its sizes"),
    "Clip": ("its input", "min", "max"),
    "CumSum CumProd": ("its input", "its axis"),
    "ReverseSequence": ("its input", "its sequence_lens"),
    "RoiAlign": ("its input", "its regions", "its batch_indices"),
    "GridSample": ("its input", "its grid"),
    "TopK": ("its input", "k"),
    "Trilu": ("its input", "k"),
    "Tile": ("its input", "its repeats"),
    "Expand Reshape": ("its input", "its shape"),
    "OneHot": ("its indices", "its depth", "its values"),
    "NonMaxSuppression": (
        "its boxes", "its scores", "max_output_boxes_per_class", "iou_threshold", "score_threshold",
    ),
    "Where": ("its condition", "its input 1", "its input 2"),
}  # fmt: skip


def input_name(node: Node, number: int) -> str:
    """Return what an input is called."""
    for kinds, names in _INPUT_NAMES.items():
        if node.type in kinds.split() and number < len(names):
            return names[number]
    return "its input %d" % number


def _orders(count: int) -> Iterator[Tuple[int, ...]]:
    own = tuple(range(count))
    if count <= MOST_ORDERED:
        yield from (order for order in permutations(own) if order != own)
        return
    yield own[::-1]
    for first in range(count):
        for second in range(first + 1, count):
            order = list(own)
            order[first], order[second] = order[second], order[first]
            yield tuple(order)


def input_order(first: int = 0, last: Optional[int] = None) -> Reading:
    """Declare inputs that may be taken in another order."""

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        chosen = [
            number
            for number in range(first, len(inputs) if last is None else min(last, len(inputs)))
            if inputs[number] is not None
        ]
        own = text_of(chosen)
        for order in _orders(len(chosen)):
            numbers = [chosen[place] for place in order]

            def taken(
                given: List[Optional[Value]], numbers: Sequence[int] = numbers
            ) -> List[Optional[Value]]:
                ordered = list(given)
                for place, number in zip(chosen, numbers):
                    ordered[place] = given[number]
                return ordered

            yield Variant("the order of its inputs", text_of(numbers), own, node, taken)

    return Reading("the order of its inputs", "each other order", variants)


def output_order() -> Reading:
    """Declare outputs that may be written in another order."""

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        for order in _orders(node.outputs):

            def written(outputs: List[Value], order: Sequence[int] = order) -> List[Value]:
                return [outputs[number] for number in order if number < len(outputs)]

            yield Variant(
                "the order of its outputs",
                text_of(list(order)),
                text_of(list(range(node.outputs))),
                node,
                None,
                written,
            )

    return Reading("the order of its outputs", "each other order", variants)


class Function(NamedTuple):
    """A function that may be computed in place of another; ``kind`` empty: none is."""

    kind: str
    attributes: Mapping[str, Any] = {}
    dialect: str = ONNX
    words: str = ""

    @property
    def text(self) -> str:
        """Its name, with its attributes."""
        shown = ", ".join("%s %s" % (key, text_of(value)) for key, value in self.attributes.items())
        return self.words or (self.kind + (" (%s)" % shown if shown else "")) or "no function"


def other_function(*functions: Function, keeps: bool = False) -> Reading:
    """Declare other functions of a node's inputs.

    Parameters
    ----------
    keeps
        They take all of the node's inputs and attributes, and not the first input alone.
    """

    def variants(node: Node, given_inputs: Inputs) -> Iterator[Variant]:
        for entry in functions:
            # One attribute that is otherwise is told as such.
            if entry.kind == node.type and (keeps or len(entry.attributes) < 2):
                continue
            instead = Node(
                entry.dialect,
                entry.kind or "Identity",
                {**(node.attributes if keeps else {}), **entry.attributes},
                node.name,
                node.version if keeps else (20 if entry.dialect == ONNX else 0),
                node.outputs,
            )

            first_alone = not (keeps and entry.kind) and len(given_inputs) > 1
            yield Variant(
                "",
                entry.text,
                node.type,
                instead,
                (lambda given: given[:1]) if first_alone else None,
            )

    return Reading("the function", ", ".join(entry.text for entry in functions), variants)


def other_node(
    name: str, change: Callable[[Node, Inputs], Iterable[Tuple[str, str, Node]]]
) -> Reading:
    """Declare what changes several attributes of a node at once: yields what the device would have
    taken, what the model says, and the node.
    """

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        for device, model, changed in change(node, inputs):
            yield Variant(name, device, model, changed)

    return Reading(name, " ".join((change.__doc__ or "").split()), variants)


def each_axis(node: Node, inputs: Inputs) -> List[int]:
    """each other axis"""
    first = inputs[0]
    count = 0 if first is None else first.array.ndim
    own = int(np.ravel(node.get("axis", 0))[0])
    # In the way that the node counts, from behind or from the front.
    return [axis - count if own < 0 else axis for axis in range(count - 1, -1, -1)]


def _nhwc_as_nchw(array: Array) -> Optional[Array]:
    """Return [N, C, ...] as it comes out where its memory is read as [N, ..., C]."""
    if array.ndim < 3:
        return None
    shape = (array.shape[0], *array.shape[2:], array.shape[1])
    return np.ascontiguousarray(np.moveaxis(array.reshape(shape), -1, 1))


def _nchw_as_nhwc(array: Array) -> Optional[Array]:
    """Return [N, C, ...] as it comes out where memory of [N, ..., C] is read as [N, C, ...]."""
    if array.ndim < 3:
        return None
    return np.ascontiguousarray(np.moveaxis(array, 1, -1)).reshape(array.shape)


OTHER_LAYOUT = (
    ("read as channels last (NHWC)", _nhwc_as_nchw),
    ("channels last (NHWC) read as channels first", _nchw_as_nhwc),
)
"""Changes of an image that is taken in the other of the two usual layouts."""

ACTIVATIONS = (
    Function("", words="no activation (Identity)"),
    Function("Relu"),
    Function("Relu6", dialect=ASCEND),
    Function("LeakyRelu", {"alpha": 0.01}),
    Function("LeakyRelu", {"alpha": 0.1}),
    Function("LeakyRelu", {"alpha": 0.2}),
    Function("Sigmoid"),
    Function("HardSigmoid", {"alpha": 0.2, "beta": 0.5}),
    Function("HardSigmoid", {"alpha": 1.0 / 6.0, "beta": 0.5}),
    Function("Tanh"),
    Function("Gelu", {"approximate": "none"}),
    Function("Gelu", {"approximate": "tanh"}),
    Function("FastGelu", dialect=ASCEND, words="Gelu by a sigmoid (x * sigmoid(1.702 x))"),
    Function("Swish"),
    Function("HardSwish"),
    Function("Mish"),
    Function("Elu", {"alpha": 1.0}),
    Function("Selu"),
    Function("Softplus"),
    Function("Softsign"),
)
"""Activations that stand for each other."""

EPSILONS = (1e-3, 1e-5, 1e-6, 1e-12, 1e-2, 0.0)
"""What normalisations add to the variance: what TensorFlow's layers take by default (1e-3), Caffe,
ONNX and PyTorch (1e-5), language models (1e-6, 1e-12), and none."""
