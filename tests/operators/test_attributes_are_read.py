"""Each attribute of ONNX's schemas, of any opset, is read by the formula of its operator."""

from __future__ import annotations

import functools
import types

import pytest
from onnx import defs

from goldwatch.operators import Node, registry

IGNORED = {
    "consumed_inputs": "which inputs may be overwritten",
    "momentum": "of what is learnt",
    "seed": "of a random mask",
    "ratio": "of a random mask; without one it scales nothing",
    "output_sequence": "whether an output is there",
    "stash_type": "the type of steps inside",
    "softmax_precision": "the type of steps inside",
    "precision": "the type of steps inside",
    "sparse_value": "without the attribute value a Constant is refused",
    "value_string": "without the attribute value a Constant is refused",
    "value_strings": "without the attribute value a Constant is refused",
    ("QuantizeLinear", "saturate"): "of floats of 8 bits, which are refused",
    ("DequantizeLinear", "output_dtype"): "the scale's type or a wider one",
    ("DeformConv", "kernel_shape"): "that of the weights",
    ("Gemm", "broadcast"): "the bias is broadcast where its shape asks for it",
}
PUT_TOGETHER = {name + "_window_size": "_window_size" for name in ("left", "right")}
"""Names that the code puts together, by what stands in it."""


def _is_ours(entry):
    return (getattr(entry, "__module__", None) or "").startswith("goldwatch.operators")


def texts_of(function):
    """Return all texts in the code of a function and of what it calls, or looks up, of ours."""
    seen, found, left = set(), set(), [function]
    while left:
        entry = left.pop()
        if id(entry) in seen:
            continue
        seen.add(id(entry))
        if isinstance(entry, types.CodeType):
            left.extend(entry.co_consts)
        elif isinstance(entry, types.FunctionType) and _is_ours(entry):
            codes = [entry.__code__]
            for code in codes:
                codes += [one for one in code.co_consts if isinstance(one, types.CodeType)]
                left += [entry.__globals__[name] for name in code.co_names
                         if name in entry.__globals__]  # fmt: skip
            left += [entry.__code__, *[cell.cell_contents for cell in entry.__closure__ or ()]]
            left += [entry.__defaults__, entry.__kwdefaults__]
        elif isinstance(entry, type) and _is_ours(entry):
            left.extend(vars(entry).values())
        elif isinstance(entry, (classmethod, staticmethod)):
            left.append(entry.__func__)
        elif isinstance(entry, functools.partial):
            left += [entry.func, entry.args, entry.keywords]
        elif isinstance(entry, dict):
            left += [*entry, *entry.values()]
        elif isinstance(entry, (list, tuple, set, frozenset)):
            left.extend(entry)
        elif isinstance(entry, str):
            found.add(entry)
    return found


def _known():
    for schema in defs.get_all_schemas_with_history():
        kind = "%s.%s" % (schema.domain, schema.name) if schema.domain else schema.name
        entry = registry.find("onnx", kind)
        if entry is not None:
            yield schema, entry


def test_no_attribute_of_a_schema_is_ignored_but_for_a_reason():
    texts, unread = {}, set()
    for schema, entry in _known():
        read = texts.setdefault(entry.name, texts_of(entry.compute))
        for name in schema.attributes:
            key = (schema.name, name)
            there = PUT_TOGETHER.get(name, name)
            if not {there, name} & read and name not in IGNORED and key not in IGNORED:
                unread.add((*key, schema.since_version))
    assert len(texts) > 100 and not unread


def test_an_attribute_that_is_not_read_would_be_found():
    assert "axis" in texts_of(registry.find("onnx", "Softmax").compute)
    assert "alpha" not in texts_of(registry.find("onnx", "Relu").compute)


@pytest.mark.parametrize("name", ["sparse_value", "value_string", "value_strings"])
def test_a_constant_of_another_kind_is_refused(name):
    with pytest.raises(registry.CannotCompute):
        registry.compute(Node("onnx", "Constant", {name: "x"}, "", 12), [])
