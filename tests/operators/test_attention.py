"""Attention and RotaryEmbedding against onnx's reference evaluator; errors scatter as they say."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from operator_references import assert_error_matches_spread, assert_near, with_error

from goldwatch.operators import CannotCompute, Node, compute

ReferenceEvaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator


def tensor(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def assert_equals_reference(kind, inputs, attributes, outputs=1, opset=23):
    names = ["" if value is None else "in%d" % at for at, value in enumerate(inputs)]
    made = ["out%d" % at for at in range(outputs)]
    node = helper.make_node(kind, names, made, **attributes)
    fed = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in zip(names, inputs)
        if value is not None
    ]
    results = [helper.make_tensor_value_info(name, 1, None) for name in made]
    model = helper.make_model(
        helper.make_graph([node], "one", fed, results),
        opset_imports=[helper.make_opsetid("", opset)],
    )
    try:
        run = ReferenceEvaluator(model)
    except (NotImplementedError, RuntimeError):
        pytest.skip("this onnx has no %s" % kind)
    right = run.run(None, dict(pair for pair in zip(names, inputs) if pair[1] is not None))
    mine = compute(Node("onnx", kind, attributes, version=opset, outputs=outputs), inputs)
    for one, other in zip(mine, right):
        assert_near(one.array, other, 1e-5)


QUERY, KEY, VALUE = tensor(1, 2, 4, 5, 8), tensor(2, 2, 4, 6, 8), tensor(3, 2, 4, 6, 7)
MASK = np.where(tensor(4, 5, 6) > 1.2, -np.inf, tensor(5, 5, 6)).astype(np.float32)


@pytest.mark.parametrize("attributes", [
    {}, {"is_causal": 1}, {"scale": 0.3}, {"softcap": 2.0}, {"is_causal": 1, "softcap": 1.5},
])  # fmt: skip
@pytest.mark.parametrize("mask", [None, MASK, MASK > 0.1])
def test_attention_equals_the_reference(attributes, mask):
    mask = mask if mask is None or mask.dtype == bool else mask
    assert_equals_reference("Attention", [QUERY, KEY, VALUE, mask], attributes)


@pytest.mark.parametrize("keys", [1, 2, 4])
def test_heads_in_one_axis_and_groups_of_them(keys):
    inputs = [tensor(1, 2, 5, 32), tensor(2, 2, 6, 8 * keys), tensor(3, 2, 6, 8 * keys)]
    attributes = {"q_num_heads": 4, "kv_num_heads": keys}
    assert_equals_reference("Attention", inputs, attributes)


@pytest.mark.parametrize("causal", [0, 1])
def test_keys_and_values_of_the_past_come_first(causal):
    past = [tensor(7, 2, 4, 3, 8), tensor(8, 2, 4, 3, 7)]
    inputs = [QUERY, KEY, VALUE, None, *past]
    assert_equals_reference("Attention", inputs, {"is_causal": causal}, outputs=3)


def test_weights_are_handed_out_and_what_differs_between_opsets_is_not():
    inputs = [QUERY, KEY, VALUE, MASK]
    for mode in (0, 3):
        attributes = {"qk_matmul_output_mode": mode}
        node = Node("onnx", "Attention", attributes, version=23, outputs=4)
        scores = compute(node, inputs)[3].array
        plain = np.einsum("nhqd,nhkd->nhqk", QUERY, KEY) / np.sqrt(8)
        if mode == 0:
            assert_near(scores, plain, 1e-5)
        else:
            assert_near(scores.sum(3), np.ones(scores.shape[:3]), 1e-5)
    with pytest.raises(CannotCompute, match="differs between opsets"):
        attributes = {"qk_matmul_output_mode": 2}
        compute(Node("onnx", "Attention", attributes, version=23, outputs=4), inputs)


def test_a_row_without_any_key_gives_zeros():
    mask = np.ones((5, 6), bool)
    mask[2] = False
    output = compute(Node("onnx", "Attention", {}, version=23), [QUERY, KEY, VALUE, mask])[0]
    assert not output.array[:, :, 2].any() and not np.isnan(output.error).any()


@pytest.mark.parametrize("attributes", [{}, {"interleaved": 1}, {"rotary_embedding_dim": 4}])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("placed", [False, True])
def test_rotary_embedding_equals_the_reference(attributes, flat, placed):
    half = attributes.get("rotary_embedding_dim", 8) // 2
    x = tensor(1, 2, 5, 24) if flat else tensor(1, 2, 3, 5, 8)
    angles = tensor(2, *((20, half) if placed else (2, 5, half)))
    places = np.random.default_rng(1).integers(0, 20, (2, 5)) if placed else None
    more = {"num_heads": 3} if flat else {}
    inputs = [x, np.cos(angles), np.sin(angles), places]
    assert_equals_reference("RotaryEmbedding", inputs, {**attributes, **more})


def test_errors_scatter_as_they_say():
    generator = np.random.default_rng(0)
    inputs = [with_error(value) for value in (QUERY, KEY, VALUE)]
    assert_error_matches_spread(Node("onnx", "Attention", {}, version=23), inputs, generator)
    angles = tensor(2, 2, 5, 4)
    inputs = [
        with_error(value) for value in (tensor(1, 2, 3, 5, 8), np.cos(angles), np.sin(angles))
    ]
    assert_error_matches_spread(Node("onnx", "RotaryEmbedding", {}, version=23), inputs, generator)
