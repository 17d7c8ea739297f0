"""Attention and RotaryEmbedding against onnx's reference evaluator; errors scatter as they say."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx.defs import onnx_opset_version
from operator_references import (
    assert_equals_onnxruntime,
    assert_error_matches_spread,
    assert_near,
    run_onnxruntime,
    with_error,
)

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
        # onnx for Python 3.7 ends at opset 19; from opset 24 on all of these are there.
        if onnx_opset_version() >= 24:
            raise
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


H, K, D = 4, 2, 16
"""Heads, those of keys, and the size of one."""


def same(*shape):
    return tensor(sum(shape), *shape)


MASK_OF_KEYS = (same(2, 7) > -0.5).astype(np.int32)


@pytest.mark.parametrize(("inputs", "attributes", "outputs"), [
    ([same(2, 5, H * D), same(2, 7, H * D), same(2, 7, H * D)], {}, 1),
    ([same(2, 5, H * D), same(2, 5, H * D), same(2, 5, H * D)], {"unidirectional": 1}, 1),
    ([same(2, 5, H * D), same(2, 7, H * D), same(2, 7, H * D), same(3 * H * D)], {"scale": 0.2}, 1),
    ([same(2, 5, H * D), same(2, 7, H * D), same(2, 7, H * D), None, MASK_OF_KEYS], {}, 1),
    (
        [same(2, 5, H * D), same(2, H, 7, D), same(2, H, 7, D), None, None, same(1, H, 5, 7)],
        {}, 1,
    ),
    (
        [*[same(2, 5, H * D)] * 3, None, None, None, same(2, H, 3, D), same(2, H, 3, D)],
        {"unidirectional": 1}, 3,
    ),
])  # fmt: skip
def test_multi_head_attention_equals_onnxruntime(inputs, attributes, outputs):
    assert_equals_onnxruntime(
        "MultiHeadAttention",
        inputs,
        {"num_heads": H, **attributes},
        outputs=outputs,
        domain="com.microsoft",
    )


def test_query_may_hold_keys_and_values_too():
    parts = [tensor(at, 2, 5, H, D) for at in range(3)]
    flat = [part.reshape(2, 5, H * D) for part in parts]
    node = Node("onnx", "com.microsoft.MultiHeadAttention", {"num_heads": H})
    apart, both = (
        compute(node, given)[0].array for given in (flat, [flat[0], np.stack(parts[1:], 3)])
    )
    assert_near(compute(node, [np.stack(parts, 3)])[0].array, apart)
    assert_near(both, apart)
    with pytest.raises(CannotCompute, match="which of 7 keys 5 queries see"):
        causal = {"num_heads": H, "unidirectional": 1}
        long = tensor(1, 2, 7, H * D)
        compute(Node("onnx", "com.microsoft.MultiHeadAttention", causal), [flat[0], long, long])


def grouped(length, past, room=0, **given):
    """Inputs of onnxruntime's GroupQueryAttention: tokens, those in the cache, and its room."""
    batch = 1 if past else 2
    inputs = [same(batch, length, heads * D) for heads in (H, K, K)]
    cache = [tensor(at, batch, K, past + room, D) if past else None for at in (8, 9)]
    total = length + past
    return [*inputs, *cache, np.full(batch, total - 1, np.int32), np.array(total, np.int32)]


ANGLES = same(20, D // 2)


@pytest.mark.parametrize(("inputs", "attributes"), [
    (grouped(5, 0), {}),
    (grouped(5, 0), {"scale": 0.2}),
    (grouped(5, 0), {"softcap": 2.0}),
    (grouped(5, 0), {"local_window_size": 2}),
    ([same(2, 5, (H + 2 * K) * D), None, None, *grouped(5, 0)[3:]], {}),
    (grouped(1, 6), {}),
    (grouped(3, 6), {}),
    (grouped(1, 6), {"local_window_size": 3}),
    ([*grouped(5, 0), np.cos(ANGLES), np.sin(ANGLES)], {"do_rotary": 1}),
    ([*grouped(1, 6), np.cos(ANGLES), np.sin(ANGLES)], {"do_rotary": 1, "rotary_interleaved": 1}),
    ([*grouped(5, 0), None, None, None, same(2, 1, 5, 5)], {}),
])  # fmt: skip
def test_group_query_attention_equals_onnxruntime(inputs, attributes):
    assert_equals_onnxruntime(
        "GroupQueryAttention",
        inputs,
        {"num_heads": H, "kv_num_heads": K, **attributes},
        outputs=3,
        domain="com.microsoft",
    )


def test_what_lies_in_a_cache_behind_the_last_token_is_not_compared():
    inputs, attributes = grouped(1, 6, room=9), {"num_heads": H, "kv_num_heads": K}
    right = run_onnxruntime("GroupQueryAttention", inputs, attributes, 17, 3, (), "com.microsoft")
    made = compute(Node("onnx", "com.microsoft.GroupQueryAttention", attributes, outputs=3), inputs)
    assert_near(made[0].array, right[0])
    for one, other in zip(made[1:], right[1:]):
        assert_near(one.array[:, :, :7], other[:, :, :7])
        assert one.array.shape == other.shape and np.isnan(one.array[:, :, 7:]).all()


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("x", [same(2, 5, H * D), same(2, H, 5, D)])
@pytest.mark.parametrize("places", [np.array([3]), np.arange(10).reshape(2, 5)])
def test_rotary_embedding_of_onnxruntime(x, places, interleaved):
    assert_equals_onnxruntime(
        "RotaryEmbedding",
        [x, places.astype(np.int64), np.cos(ANGLES), np.sin(ANGLES)],
        {"interleaved": interleaved},
        domain="com.microsoft",
    )


LAYOUTS = {"BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3), "BSH": (0, 2, 1, 3), "SBH": (2, 0, 1, 3)}
"""Of [batch, heads, length, size] the order of axes; the last two ones of some are one axis."""


def laid_out(array, layout):
    moved = array.transpose(LAYOUTS[layout])
    return moved if "N" in layout else moved.reshape(*moved.shape[:2], -1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("kind", "attributes"), [
    ("FlashAttentionScore", {"head_num": H, "scale_value": 0.3}),
    ("FlashAttentionScore", {"head_num": H, "scale_value": 0.3, "pse_type": 0}),
    ("FlashAttentionScore", {"head_num": H, "scale_value": 0.3, "sparse_mode": 3}),
    ("PromptFlashAttention", {"num_heads": H, "num_key_value_heads": K, "scale_value": 0.3}),
    ("FusedInferAttentionScore", {"num_heads": H, "num_key_value_heads": K, "scale": 0.3}),
])  # fmt: skip
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
def test_attention_of_ascend_equals_its_formula(layout, kind, attributes, masked, shifted):
    q, k, v = tensor(1, 2, H, 5, D), tensor(2, 2, K, 7, D), tensor(3, 2, K, 7, D)
    added = tensor(4, 2, H, 5, 7) if shifted else None
    hidden = tensor(5, 1, 1, 5, 7) > 0.7 if masked else None
    first = kind == "FlashAttentionScore"
    inputs = [*[laid_out(one, layout) for one in (q, k, v)], added]
    inputs += [None, None, hidden] if first else [hidden]
    made = compute(Node("ascend", kind, {**attributes, "input_layout": layout}, outputs=4), inputs)
    scores = np.einsum("bhqd,bhkd->bhqk", q, k.repeat(H // K, 1))
    more = 0 if added is None else added
    scores = 0.3 * (scores + more) if first and "pse_type" not in attributes else (
        0.3 * scores + more)  # fmt: skip
    if masked:
        by_place = np.arange(7) > np.arange(5)[:, None] + 2
        scores = np.where(by_place if "sparse_mode" in attributes else hidden, -np.inf, scores)
    weights = np.exp(scores - scores.max(3, keepdims=True))
    right = np.einsum("bhqk,bhkd->bhqd", weights, v.repeat(H // K, 1))
    right = right / weights.sum(3, keepdims=True)
    assert_near(made[3 if first else 0].array, laid_out(right, layout), 1e-5)
    if first:
        assert_near(made[0].array, scores.max(3, keepdims=True) * np.ones(8), 1e-5)
        assert_near(made[1].array, weights.sum(3, keepdims=True) * np.ones(8), 1e-5)


def test_attention_of_ascend_that_is_not_known_is_not_guessed():
    q = tensor(1, 2, H, 5, D)
    for more, inputs, text in (
        ({"keep_prob": 0.9}, [], "in training mode"),
        ({"input_layout": "TND"}, [], "input_layout TND"),
        ({"sparse_mode": 4}, [], "sparse_mode 4"),
        ({}, [None, None, None, None, np.array([2, 5])], "its input 7"),
    ):
        attributes = {"head_num": H, "input_layout": "BNSD", **more}
        with pytest.raises(CannotCompute, match=text):
            compute(Node("ascend", "FlashAttentionScore", attributes), [q, q, q, *inputs])
