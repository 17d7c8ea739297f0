"""Explanations of an operator's error: their kinds, what to do next, and those whose words are the
same for every operator.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from ...base.fast_dataclasses import dataclass
from ...base.wording import listed

_COUNTED = re.compile(r" \([^()]*elements agree")
_SHOWN = 4
"""Operators of which a sentence names each."""

KINDS = (
    "saturation", "overflow", "flush-to-zero", "rounding", "layout", "shift", "scale", "bias",
    "wrong-golden", "other-input",
    "dequantisation", "stale-dump", "padding", "one-slice", "not-equal", "nan", "did-nothing",
    "activation", "one-device", "attribute", "other-tensor", "not-written", "unexplained",
    "other-weights",
)  # fmt: skip
"""Stable ids, listed in docs/reference/verdict.md."""

WRONG_GOLDEN, OTHER_INPUT = "wrong-golden", "other-input"
_OF_PRECISION, _TOO_LARGE = {"flush-to-zero", "rounding"}, {"overflow", "saturation"}
"""Explanations of which an operator in float32 is the remedy."""
OTHER_WEIGHTS = "other-weights"
_BLAMELESS = frozenset([WRONG_GOLDEN, OTHER_INPUT, OTHER_WEIGHTS])

_NEXT = {
    "saturation": "find where values leave the type's range: keep the operator in float32, or "
    "scale what feeds it",
    "overflow": "find where values leave the type's range: keep the operator in float32, or "
    "scale what "
    "feeds it",
    "flush-to-zero": "keep the operator in float32, or scale its inputs up: its values are too "
    "small for the "
    "device's type",
    "rounding": "compare the operator in a higher precision (float32) before looking for a fault",
    "layout": "compare the operator's formats in the model's json with the golden data's "
    "layout, then "
    "convert the model again",
    "shift": "look at the operator's padding, stride and crop attributes in the model's json",
    "scale": "compare the operator's weights and numbers (scale, epsilon, alpha, quantisation) "
    "with those of the original model",
    "bias": "look whether the operator's bias (or beta, or zero point) reached the compiled model",
    "wrong-golden": "make the golden data again; of a Caffe net without in-place layers "
    "(goldwatch golden "
    "caffe deinplace)",
    "other-input": "compare the input file of the device with that of the golden run, "
    "preprocessing (AIPP, "
    "mean, channel order) included",
    "unexplained": "compare the operator's attributes and weights in the model's json with the "
    "original model; run the same input twice on the device: values that differ then were not "
    "written",
    "not-written": "look whether the operator ran at all (its task in the compiled model), and run "
    "the same input twice: what was not written may hold other values then",
    "dequantisation": "look for the scale and offset of the operator in the quantisation's "
    "record: one side is "
    "not dequantised",
    "stale-dump": "run the program again with the present model and compare the new dumps",
    "padding": "compare with golden data in the original layout: the device's padding holds no "
    "values of "
    "the model",
    "one-slice": "compare the tiling, and that part of any weights, in the compiled model with the "
    "original's; convert it again",
    "not-equal": "look at the elements at the positions in the row's reason, and at the order "
    "in which "
    "equal values are chosen",
    "activation": "compare the activation that is fused into this operator in the model's json "
    "with the original model's, and look of which tensor the golden data are",
    "nan": "look for 0/0, the root of a negative number, or memory that was not written, in this "
    "operator",
}
_MEASURED = frozenset(["scale", "bias", "shift", "layout", "one-slice", "not-equal", "unexplained"])
"""Kinds that say how two tensors differ; why, only the original model tells."""
_NEXT_MODEL = "compare again with the original model given: it names the cause"
_NOT_WHY = "this says how the two differ, not why; "
_WINDOWED = re.compile("conv|pool|pad|crop|slice|resize|im2col|col2im|roi|patches")
"""Types of operators that have windows, pads or places where they begin."""
_NEXT_IN_ORDER = (
    "compare the order of its inputs, and the attributes that say where it reads or writes (an "
    "axis, a direction), in the model's json with the original model"
)
_CONTRADICTED = (
    "its golden data do not fit those of the operator that reads them, and the device's output "
    "does: the golden data are wrong"
)
_OTHER_FILE = (
    "its golden data are right, and so is what the operators behind it make of its output: its "
    "dump is not what they read"
)
_WHAT_DIFFERS = "or what differs does not count there"
_BEHIND = {
    "given": "what reads it is right: either its golden data are wrong, %s" % _WHAT_DIFFERS,
    "reader": "what reads it is right: either its golden data are wrong, or its dump file is "
    "of another "
    "run, %s" % _WHAT_DIFFERS,
}
_PERHAPS = "what reads it is right: its dump file may be of another run, %s" % _WHAT_DIFFERS
_NEXT_FOR_EITHER = (
    "look at the times of its dump file and of its golden file beside those of other operators, "
    "and make again what is older"
)

GOLDEN, READER, GIVEN = "golden", "reader", "given"
"""How golden data are contradicted, see :class:`.pattern_explanations.Surroundings`."""


@dataclass(frozen=True)
class Explanation:
    """One explanation of an operator's error.

    Attributes
    ----------
    kind
        One of :data:`KINDS`.
    share
        Of the operator's own squared error (what its inputs explain is left out), how much it
        explains, 0 to 1.
    sentence
        What was found, in numbers.
    next
        What to do next.
    devices
        The part of the sentence, its last one, that tells on which devices the operator is wrong
        and on which right; empty where it tells none.
    tried
        What was tried and does not explain it.
    """

    kind: str
    share: float
    sentence: str
    next: str
    devices: str = ""
    tried: Tuple[str, ...] = ()

    @property
    def blameless(self) -> bool:
        """Whether it clears the operator: something else is wrong."""
        return self.kind in _BLAMELESS or (self.kind == "stale-dump" and self.share > 0)

    @property
    def of_precision(self) -> bool:
        """Whether an operator in float32 is the remedy: of values that are too large where it is
        said so, for those that a bound cuts off, and whole numbers, are not mended.
        """
        told = self.next == _NEXT.get(self.kind) or "goldwatch cure" in self.next
        return self.kind in _OF_PRECISION or (self.kind in _TOO_LARGE and told)

    @property
    def brief(self) -> str:
        """What was computed instead, without how many elements agree; empty where not known."""
        if not self.share or self.kind in ("unexplained", "not-equal"):
            return ""
        return _COUNTED.split(self.sentence)[0]

    def fitting(self, op_type: str) -> Explanation:
        """Return it with a next step that fits the type of its operator."""
        if self.next == _NEXT["shift"] and not _WINDOWED.search(op_type.lower()):
            return replace(self, next=_NEXT_IN_ORDER)
        return self

    def without_model(self) -> Explanation:
        """Return it with what names the cause where the original model is not known."""
        return replace(self, next=_NOT_WHY + _NEXT_MODEL) if self.kind in _MEASURED else self

    @property
    def clears_all(self) -> bool:
        """Whether by it no operator need be wrong, as what the device was given is another one."""
        return self.kind in (OTHER_INPUT, OTHER_WEIGHTS) and self.share > 0

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Explanation:
        """Return the explanation of an entry of result.json."""
        return cls(**{**document, "tried": tuple(document.get("tried", ()))})

    def document(self) -> Dict[str, Any]:
        """Return an entry of result.json's ``explanations``."""
        return {
            "kind": self.kind,
            "share": round(self.share, 4),
            "sentence": self.sentence,
            "next": self.next,
            **({"devices": self.devices} if self.devices else {}),
            **({"tried": list(self.tried)} if self.tried else {}),
        }


def not_known_without_model() -> Explanation:
    """Return the explanation of an error that no pattern fits, where no original model is known."""
    return Explanation("unexplained", 0.0, "no pattern fits what differs", _NEXT_MODEL)


def explanation(kind: str, share: float, sentence: str) -> Explanation:
    """Return an explanation with the next step of its kind."""
    return Explanation(kind, share, sentence, _NEXT[kind])


def older_dump(age: str) -> Explanation:
    """Return the explanation that a dump file is older than the model file, as a sentence tells."""
    return explanation("stale-dump", 0.0, age)


def dump_of_another_run() -> Explanation:
    """Return the explanation that a dump file is not what the operators behind it read."""
    return explanation("stale-dump", 1.0, _OTHER_FILE)


def dump_of_another_run_maybe() -> Explanation:
    """Return the explanation that a dump file may not be what the operators behind it read."""
    return explanation("stale-dump", 0.0, _PERHAPS)


def outputs_exchanged(order: Sequence[int]) -> Explanation:
    """Return the explanation that outputs of an operator hold those of golden data in an order."""
    sentence = "its outputs %s hold what golden data have as its outputs %s" % (
        sorted(order),
        list(order),
    )
    step = (
        "compare the order of its outputs in the om's json, and which of them each operator behind "
        "reads, with the original model's"
    )
    return Explanation("attribute", 1.0, sentence, step)


def inputs_exchanged(names: Sequence[str], is_golden: bool) -> Explanation:
    """Return the explanation that two inputs of the network hold the golden data of each other;
    ``is_golden``: what is computed from them is right.
    """
    sentence = (
        "the network's inputs %s and %s are exchanged: each holds the golden data of the other"
    )
    sentence %= tuple(names)
    if is_golden:
        step = "give each golden file of an input the name of its input, or make golden data again"
        sentence += "; what is computed from them is right, so golden data have them exchanged"
        return Explanation(WRONG_GOLDEN, 1.0, sentence, step)
    step = (
        "give the device's program its input files in the order of the om's inputs (Data ops of "
        "its json, by their index), or give both sides each file by its input's name"
    )
    return Explanation(OTHER_INPUT, 1.0, sentence, step)


def golden_contradicted(how: str) -> Explanation:
    """Return the explanation that an operator behind contradicts golden data, in one of the ways
    ``GOLDEN``, ``READER`` and ``GIVEN``.
    """
    sentence = _BEHIND.get(how)
    if sentence is None:
        return explanation("wrong-golden", 1.0, _CONTRADICTED)
    return Explanation("wrong-golden", 1.0, sentence, _NEXT_FOR_EITHER)


def other_input_of(readers: int) -> Explanation:
    """Return the explanation of several operators that read an input of the network which was not
    dumped, and are all wrong.
    """
    sentence = (
        "all %d operators that read the network's input, which was not dumped, are off: the "
        "device may have been fed with other data"
    )
    return explanation("other-input", 1.0, sentence % readers)


def golden_without_numbers(whose: str) -> Explanation:
    """Return the explanation that golden data, which ``whose`` names, are NaN or Inf throughout."""
    sentence = (
        "%s NaN or Inf throughout, none of the device's is: the golden data are wrong, not "
        "the operator" % whose
    )
    step = "make the golden data again, and look for NaN in the original model's input and weights"
    return Explanation("wrong-golden", 1.0, sentence, step)


def other_weights(
    op: str,
    ops: Sequence[str],
    own: str,
    shapes: Mapping[str, str],
    counted: Tuple[int, int, int, int],
    files: Optional[Tuple[str, str]],
    only_folded: bool,
) -> Explanation:
    """Return the explanation of an operator of an om that holds other parameters than the original
    model.

    Parameters
    ----------
    op, ops
        The operator, and all that are right with other weights.
    own
        What is told of the operator alone; may be empty.
    shapes
        Of operators whose weights or outputs are of another shape than the model's, a sentence.
    counted
        Of how many operators with weights how many differ (the second, the first), and of how many
        others how many agree (the fourth, the third).
    files
        The files that golden data were made of and the om was compiled from, where these are two.
    only_folded
        Whether all weights are the model's but for a factor of each filter.
    """
    sentences = [own] if own else []
    counts = "%d of %d operators with weights differ from what is computed with the original's%s"
    named = " (%s)" % listed(ops, _SHOWN) if ops else ""
    without = "%d of %d that read no constants agree" % counted[2:]
    sentences.append(counts % (*counted[:2], named) + (", " + without if counted[3] else ""))
    sentences += ["%s: %s" % (other, shapes[other]) for other in list(shapes)[:1] if other != op]
    if only_folded:
        sentences.append(
            "the weights are the original's but for a factor of each filter: the original model "
            "holds other normalisations (another checkpoint), or they were folded wrongly"
        )
        step = (
            "compare the checkpoint that the om was compiled from with the original model (scales, "
            "means and variances of its normalisations); where they are the same, compile it again "
            "without that fusion and compare"
        )
        return Explanation(OTHER_WEIGHTS, 1.0, "; ".join(sentences), step)
    compiled = "" if files is None else " (golden data were made of %s, the om of %s)" % files
    sentences.append(
        "the original model holds other weights: TARGET's om was not compiled from it%s" % compiled
    )
    step = (
        "make golden data of the model that the om was compiled from (another model, another "
        "checkpoint, or a quantised one), and give that one"
    )
    return Explanation(OTHER_WEIGHTS, 1.0, "; ".join(sentences), step)
