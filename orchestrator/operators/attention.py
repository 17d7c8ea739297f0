"""Attention of ONNX (opset 23 on) with its cache, masks and groups of heads, and RotaryEmbedding;
onnxruntime's and Ascend IR's attention in terms of it.

Sources: the ONNX operator list of opsets 23 to 26; onnxruntime's list of contrib operators and what
its CPU kernels compute; the operator prototypes of Ascend IR. Where the lists of these opsets and
onnxruntime agree on nothing (the step that ``qk_matmul_output_mode`` 1 and 2 hand out changed
places), the values are not computed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Iterator, List, Optional, Tuple

import numpy as np

from .error_propagation import elementwise, moved
from .matrix_products import product
from .registry import (
    ONNX,
    CannotCompute,
    Inputs,
    InTraining,
    Node,
    has_input,
    input_at,
    operator,
    scalar,
    whole,
)
from .softmax import softmax
from .value_with_error import Arithmetic, Value
from .variants import (
    Reading,
    Variant,
    attribute,
    changed_input,
    computed_instead,
    declare,
    input_order,
    other_node,
)

Array = Any

_SCORES, _WEIGHTS = 0, 3
"""Values of ``qk_matmul_output_mode`` that mean the same everywhere."""


def _heads(value: Value, heads: Optional[int]) -> Value:
    """Return [batch, heads, length, size] of a tensor that may be [batch, length, heads · size]."""
    if value.array.ndim == 4:
        return value
    if not heads or value.array.ndim != 3 or value.array.shape[2] % heads:
        raise CannotCompute("%s heads do not fit %s" % (heads, value.array.shape))
    batch, length, wide = value.array.shape
    shape = (batch, length, heads, wide // heads)
    return moved(lambda array: array.reshape(shape).transpose(0, 2, 1, 3), value)


def _behind(past: Optional[Value], new: Value) -> Value:
    """Return what is cached and what is new, along the sequence."""
    if past is None:
        return new
    array = np.concatenate((past.array, new.array), 2)
    if past.error is None and new.error is None:
        return Value(array)
    errors = [
        np.zeros(value.array.shape)
        if value.error is None
        else np.broadcast_to(value.error, value.array.shape)
        for value in (past, new)
    ]
    return Value(array, np.concatenate(errors, 2))


def _allowed(
    node: Node, inputs: Inputs, queries: int, keys: int, past: int
) -> Tuple[Array, Optional[Value]]:
    """Return which keys each query sees, and the mask to be added; None without one."""
    seen: Array = np.ones((queries, keys), bool)
    lengths = inputs[6].array.reshape(-1) if has_input(inputs, 6) else None  # type: ignore[union-attr]
    offset = np.asarray(past if lengths is None else lengths - queries)
    ahead = np.arange(keys) - (np.arange(queries)[:, None] + offset.reshape(-1, 1, 1, 1))
    if bool(node.get("is_causal", 0)):
        seen = seen & (ahead <= 0)
    left, right = (int(node.get(name + "_window_size", -1)) for name in ("left", "right"))
    seen = seen & (ahead >= -left if left >= 0 else True) & (ahead <= right if right >= 0 else True)
    if lengths is not None:
        seen = seen & (np.arange(keys) < lengths.reshape(-1, 1, 1, 1))
    mask = inputs[3] if has_input(inputs, 3) else None
    if mask is None:
        return seen, None
    short = keys - mask.array.shape[-1]
    if short > 0:
        ends = [(0, 0)] * (mask.array.ndim - 1) + [(0, short)]
        seen = seen & (np.arange(keys) < keys - short)
        mask = moved(lambda array: np.pad(array, ends), mask)
    if mask.array.dtype == bool:
        return seen & mask.array, None
    return seen & ~np.isneginf(mask.array), mask


@operator(onnx=("Attention",), multiplies=True)
def attention(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """softmax(scale · Q·Kᵀ + mask) · V (query, key, value, mask, past key, past value, lengths);
    keys and values with the past, and the products, are outputs too.
    """
    flat = input_at(inputs, 0).array.ndim == 3
    counts = [node.get(name, None) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    query, key, value = (_heads(input_at(inputs, at), counts[at]) for at in range(3))
    pasts = [inputs[at] if has_input(inputs, at) else None for at in (4, 5)]
    key, value = _behind(pasts[0], key), _behind(pasts[1], value)
    outputs = [key, value]
    groups, rest = divmod(query.array.shape[1], key.array.shape[1])
    if rest:
        raise CannotCompute("its heads of queries are no multiple of those of keys")
    if groups > 1:
        key, value = (moved(lambda array: array.repeat(groups, 1), one) for one in (key, value))
    scale = float(node.get("scale", 0.0) or 1.0 / np.sqrt(query.array.shape[3]))
    past = 0 if pasts[0] is None else pasts[0].array.shape[2]
    seen, mask = _allowed(node, inputs, query.array.shape[2], key.array.shape[2], past)
    root = float(np.sqrt(scale))
    query, key = (
        elementwise(lambda array: array * root, one).with_step(arithmetic.intermediate)
        for one in (query, key)
    )
    scores = product(query, moved(lambda array: array.swapaxes(2, 3), key), arithmetic)
    cap, mode = float(node.get("softcap", 0.0)), int(node.get("qk_matmul_output_mode", 0))
    shown = scores
    scores = scores.with_step(arithmetic.intermediate)
    if cap:
        scores = elementwise(lambda array: cap * np.tanh(array / cap), scores)
    if mask is not None:
        # What is not seen has no score, however far the mask is from infinity.
        finite = moved(lambda array: np.where(np.isneginf(array), 0, array), mask)
        scores = elementwise(np.add, scores, finite)
    hidden = ~np.broadcast_to(seen, scores.array.shape)
    weights = softmax(
        Value(np.where(hidden, -np.inf, scores.array), scores.error), (3,), arithmetic
    )
    nothing = hidden.all(3, keepdims=True)
    weights = Value(
        np.where(nothing, 0, weights.array),
        None if weights.error is None else np.where(hidden | nothing, 0, weights.error),
    )
    if mode not in (_SCORES, _WEIGHTS) and node.outputs > 3:
        raise CannotCompute("what mode %d hands out differs between opsets" % mode)
    output = product(weights.with_step(arithmetic.intermediate), value, arithmetic)
    if flat:
        shape = (output.array.shape[0], output.array.shape[2], -1)
        output = moved(lambda array: array.transpose(0, 2, 1, 3).reshape(shape), output)
    if mode == _SCORES and cap and node.outputs > 3:
        raise CannotCompute("whether scores are handed out with their softcap differs")
    return [output, *outputs, weights if mode == _WEIGHTS else shown][: max(1, node.outputs)]


@operator(onnx=("RotaryEmbedding",))
def rotary_embedding(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Turn pairs of a head's values by angles whose cosines and sines are inputs (x, cosine, sine,
    position of each token): the halves, or neighbours where ``interleaved``.
    """
    x = input_at(inputs, 0)
    flat = x.array.ndim == 3
    heads = _heads(x, int(node.get("num_heads", 0)))
    size = int(node.get("rotary_embedding_dim", 0)) or heads.array.shape[3]
    half = size // 2
    near = bool(node.get("interleaved", 0))
    first, second = (
        (slice(0, size, 2), slice(1, size, 2)) if near else (slice(0, half), slice(half, size))
    )
    angles = [input_at(inputs, at) for at in (1, 2)]
    if has_input(inputs, 3):
        places = inputs[3].array.astype(np.int64)  # type: ignore[union-attr]
        angles = [moved(lambda array: array[places], angle) for angle in angles]
    if angles[0].array.shape[-1] != half:
        raise CannotCompute("%d angles do not fit %d values" % (angles[0].array.shape[-1], size))
    cosine, sine = (moved(lambda array: array[:, None], angle) for angle in angles)
    one = moved(lambda array: array[..., first], heads)
    two = moved(lambda array: array[..., second], heads)
    turned = [
        elementwise(lambda a, b, c, s: c * a - s * b, one, two, cosine, sine),
        elementwise(lambda a, b, c, s: s * a + c * b, one, two, cosine, sine),
    ]

    def placed(given: Array, left: Array, right: Array) -> Array:
        made = np.array(np.broadcast_to(given, heads.array.shape))
        made[..., first], made[..., second] = left, right
        return made

    array = placed(heads.array, *(value.array for value in turned))
    errors = [0.0 if value.error is None else value.error for value in (heads, *turned)]
    output = Value(array, placed(*map(np.asarray, errors)) if any(map(np.any, errors)) else None)
    output = output.with_step(arithmetic.intermediate)
    if not flat:
        return [output]
    return [moved(lambda value: value.transpose(0, 2, 1, 3).reshape(x.array.shape), output)]


@operator(onnx=("com.microsoft.RotaryEmbedding",))
def contrib_rotary_embedding(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """onnxruntime's (x, position of each token or of the first one, cosine, sine)."""
    if node.get("is_packed_batching", 0):
        raise CannotCompute("how it takes packed sequences is not known")
    x, half = input_at(inputs, 0), input_at(inputs, 2).array.shape[1]
    heads = int(node.get("num_heads", 0)) or (x.array.shape[-1] // (2 * half))
    places = input_at(inputs, 1).array
    length = x.array.shape[-2]
    if places.size == 1:
        places = np.broadcast_to(places.reshape(1, 1) + np.arange(length), (len(x.array), length))
    given = [x, input_at(inputs, 2), input_at(inputs, 3), Value(places)]
    attributes = {**node.attributes, "num_heads": heads}
    return rotary_embedding(replace(node, attributes=attributes), given, arithmetic)


def _require_none(inputs: Inputs, *numbers: int) -> None:
    """Raise CannotCompute where one of these inputs is there."""
    for at in numbers:
        if has_input(inputs, at) and inputs[at].array.size:  # type: ignore[union-attr]
            raise CannotCompute("what its input %d does is not known" % at)


@operator(onnx=("com.microsoft.MultiHeadAttention",), multiplies=True)
def multi_head_attention(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """onnxruntime's (query, key, value, bias of the three, which keys are visible, what is added to
    the scores, past key, past value); query alone, or query and key, may hold all three.
    """
    _require_none(inputs, *range(8, len(inputs)))
    heads = int(node.get("num_heads"))
    query = input_at(inputs, 0)
    parts = [inputs[at] if has_input(inputs, at) else None for at in (1, 2)]
    packed = query if parts[0] is None else parts[0]
    if packed.array.ndim == 5:
        # [batch, length, heads, 2 or 3, size]
        count = packed.array.shape[3]
        flat = (*packed.array.shape[:2], -1)
        found = [
            moved(lambda array, at=at: array[:, :, :, at].reshape(flat), packed)  # type: ignore[misc]
            for at in range(count)
        ]
        query = found[0] if count == 3 else query
        parts = [found[-2], found[-1]]
    given = [query, *parts]
    if has_input(inputs, 3):
        bias, first = input_at(inputs, 3), 0
        for at, one in enumerate(given):
            if one is None or one.array.ndim != 3:
                raise CannotCompute("how a bias is added to its input %d is not known" % at)
            last = first + one.array.shape[2]
            own = moved(lambda array, a=first, b=last: array[a:b], bias)  # type: ignore[misc]
            given[at], first = (
                elementwise(np.add, one, own).with_step(arithmetic.intermediate),
                last,
            )
    mask = inputs[5] if has_input(inputs, 5) else None
    if has_input(inputs, 4):
        seen = inputs[4].array  # type: ignore[union-attr]
        if seen.ndim == 1:
            raise CannotCompute("how it takes lengths of keys is not known")
        shape = (len(seen), 1, *((1,) if seen.ndim == 2 else ()), *seen.shape[1:])
        hidden = Value(
            np.where(seen == 0, float(node.get("mask_filter_value", -10000.0)), 0).reshape(shape)
        )
        mask = hidden if mask is None else elementwise(np.add, mask, hidden)
    attributes = {
        "q_num_heads": heads,
        "kv_num_heads": heads,
        "is_causal": int(node.get("unidirectional", 0)),
        "scale": float(node.get("scale", 0.0)),
    }
    whole_node = Node(ONNX, "Attention", attributes, node.name, 23, node.outputs)
    pasts = [inputs[at] if has_input(inputs, at) else None for at in (6, 7)]
    lengths = [one.array.shape[-2] for one in given[:2] if one is not None]
    if attributes["is_causal"] and len(set(lengths)) > 1:
        raise CannotCompute("which of %d keys %d queries see is not known" % tuple(lengths[::-1]))
    return attention(whole_node, [*given, mask, *pasts], arithmetic)


@operator(onnx=("com.microsoft.GroupQueryAttention",), multiplies=True)
def group_query_attention(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """onnxruntime's (query, key, value, past key, past value, the last token of each sequence, the
    length of all, cosine, sine, positions, what is added to the scores); query may hold all three.
    """
    _require_none(inputs, *range(11, len(inputs)))
    for name in ("smooth_softmax", "qk_output", "sliding_window_cache", "kv_cache_bit_width"):
        if int(node.get(name, 0)) > 0:
            raise CannotCompute("what its %s does is not known" % name)
    counts = [int(node.get(name)) for name in ("num_heads", "kv_num_heads", "kv_num_heads")]
    given = [inputs[at] if has_input(inputs, at) else None for at in range(3)]
    query = input_at(inputs, 0)
    if given[1] is None:
        size = query.array.shape[2] // sum(counts)
        ends = np.cumsum([count * size for count in counts])
        given = [
            moved(lambda array, a=end - count * size, b=end: array[..., a:b], query)  # type: ignore[misc]
            for end, count in zip(ends, counts)
        ]
    length, total = query.array.shape[1], scalar(inputs, 6)
    if set(whole(inputs, 5)) != {total - 1}:
        raise CannotCompute("how it takes sequences of different lengths is not known")
    before = total - length
    if before and node.outputs < 3:
        raise CannotCompute("what it takes of a cache that it hands out to nobody is not known")
    if int(node.get("do_rotary", 0)):
        places = np.broadcast_to(before + np.arange(length), (len(query.array), length))
        if has_input(inputs, 9):
            places = np.reshape(inputs[9].array, places.shape)  # type: ignore[union-attr]
        for at in range(2):
            turned = {
                "num_heads": counts[at], "interleaved": int(node.get("rotary_interleaved", 0)),
                "rotary_embedding_dim": 2 * input_at(inputs, 7).array.shape[1],
            }  # fmt: skip
            given[at] = rotary_embedding(
                Node(ONNX, "RotaryEmbedding", turned, version=23),
                [given[at], input_at(inputs, 7), input_at(inputs, 8), Value(places)],
                arithmetic,
            )[0]
    # A cache may have room for more than is in it.
    pasts = [
        moved(lambda array: array[:, :, :before], input_at(inputs, at))
        if before and has_input(inputs, at)
        else None
        for at in (3, 4)
    ]
    attributes = {
        "q_num_heads": counts[0],
        "kv_num_heads": counts[1],
        "is_causal": int(node.get("causal", 1)),
        "scale": float(node.get("scale", 0.0)),
        "softcap": float(node.get("softcap", 0.0)),
        "left_window_size": max(-1, int(node.get("local_window_size", -1)) - 1),
    }
    whole_node = Node(ONNX, "Attention", attributes, node.name, 23, min(3, node.outputs))
    mask = inputs[10] if has_input(inputs, 10) else None
    output, *cached = attention(whole_node, [*given, mask, *pasts], arithmetic)
    room = inputs[3].array.shape[2] - total if has_input(inputs, 3) else 0  # type: ignore[union-attr]
    beyond = [(0, 0), (0, 0), (0, max(0, room)), (0, 0)]
    return [
        output,
        *(
            Value(
                np.pad(one.array, beyond, constant_values=np.nan),
                None if one.error is None else np.pad(one.error, beyond),
            )
            for one in cached
        ),
    ]


_ASCEND_ATTENTION = {
    # The first of the inputs that are added to scores and that mask them, and attributes.
    "FlashAttentionScore": (3, 6, "head_num", "scale_value"),
    "PromptFlashAttention": (3, 4, "num_heads", "scale_value"),
    "IncreFlashAttention": (3, 4, "num_heads", "scale_value"),
    "FusedInferAttentionScore": (3, 4, "num_heads", "scale"),
}


@operator(ascend=tuple(_ASCEND_ATTENTION), multiplies=True)
def ascend_attention(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR's attention without caches in pages and lengths of sequences: (query, key, value,
    what is added, a mask of what is hidden); FlashAttentionScore gives the largest score of each
    row, and the sum of exponentials, before its output.
    """
    added_at, mask_at, heads_name, scale_name = _ASCEND_ATTENTION[node.type]
    for at in range(3, len(inputs)):
        if at not in (added_at, mask_at):
            _require_none(inputs, at)
    if float(node.get("keep_prob", 1.0)) < 1.0:
        raise InTraining("it", ": it drops weights at random")
    layout, heads = str(node.get("input_layout", "BSH")), int(node.get(heads_name))
    orders = {"BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3), "BSH": (0, 1, 2), "SBH": (1, 0, 2)}
    if layout not in orders:
        raise CannotCompute("its input_layout %s is not known" % layout)
    order = orders[layout]
    given = [moved(lambda array: array.transpose(order), input_at(inputs, at)) for at in range(3)]
    size = given[0].array.shape[-1] // (heads if len(order) == 3 else 1)
    kept = int(node.get("num_key_value_heads", 0)) or given[1].array.shape[2] // size
    scale, mode = float(node.get(scale_name, 1.0)), int(node.get("sparse_mode", 0))
    if mode > 3:
        raise CannotCompute("what its sparse_mode %d masks is not known" % mode)
    mask = inputs[mask_at] if has_input(inputs, mask_at) else None
    seen: Optional[Array] = None
    if mask is not None:
        queries, keys = (one.array.shape[1 if len(order) == 3 else 2] for one in given[:2])
        ahead = np.arange(keys) - np.arange(queries)[:, None]
        # Modes 2 and 3 are causal from the first and from the last token, whatever the mask holds.
        seen = mask.array == 0 if mode < 2 else ahead <= (keys - queries if mode == 3 else 0)
    added = inputs[added_at] if has_input(inputs, added_at) else None
    if added is not None:
        first = node.type == "FlashAttentionScore" and int(node.get("pse_type", 1)) == 1
        factor = scale if first else 1.0
        hidden = 0.0 if seen is None else np.where(seen, 0.0, -np.inf)
        added = elementwise(lambda array: array * factor + hidden, added)
    attributes = {"q_num_heads": heads, "kv_num_heads": kept, "scale": scale}
    whole_node = Node(ONNX, "Attention", attributes, node.name, 23, 4)
    shown = added if added is not None or seen is None else Value(seen)
    output, _, _, scores = attention(whole_node, [*given, shown], arithmetic)
    output = moved(lambda array: array.transpose(np.argsort(order)), output)
    if node.type != "FlashAttentionScore":
        return [output]
    plain = scores if added is None else elementwise(np.add, scores, added)
    hidden_ones = np.broadcast_to(True if seen is None else seen, plain.array.shape)
    array = np.where(hidden_ones, plain.array, -np.inf)
    most = array.max(3, keepdims=True)
    total = np.exp(array - most).sum(3, keepdims=True)
    error = 0.0 if plain.error is None else np.max(plain.error, 3, keepdims=True)
    eight = np.ones(8)
    return [Value(most * eight, error * eight), Value(total * eight, total * error * eight),
            Value(np.zeros(0)), output]  # fmt: skip


def _without_mask(node: Node, inputs: Inputs) -> Iterator[Variant]:
    if has_input(inputs, 3):
        yield Variant(
            "the mask", "left out", "the mask", node, lambda given: [*given[:3], None, *given[4:]]
        )


def _size_of_head(node: Node, inputs: Inputs) -> int:
    query = input_at(inputs, 0).array
    heads = int(node.get("q_num_heads", 0) or node.get("num_heads", 1)) if query.ndim == 3 else 1
    if "GroupQuery" in node.type and not has_input(inputs, 1):
        heads += 2 * int(node.get("kv_num_heads"))
    return int(query.shape[-1]) // heads


def _scales(node: Node, inputs: Inputs) -> List[float]:
    """none (1), 1 / √d, 1 / d, of a head or of all heads"""
    sizes = _size_of_head(node, inputs), int(input_at(inputs, 0).array.shape[-1])
    return [1.0, *(size**-0.5 for size in sizes), *(1.0 / size for size in sizes)]


def _other_heads(node: Node, inputs: Inputs) -> Iterator[Tuple[str, str, Node]]:
    """each other number that divides the size"""
    x, own = input_at(inputs, 0).array, int(node.get("q_num_heads", 0) or 0)
    key_heads = int(node.get("kv_num_heads", own) or own)
    for heads in range(1, x.shape[-1] + 1) if x.ndim == 3 and own else ():
        if x.shape[-1] % heads == 0 and heads != own:
            for kept in dict.fromkeys((max(1, heads * key_heads // own), heads)):
                attributes = {**node.attributes, "q_num_heads": heads, "kv_num_heads": kept}
                yield (
                    "%d and kv_num_heads %d" % (heads, kept),
                    "%d and kv_num_heads %d" % (own, key_heads),
                    replace(node, attributes=attributes),
                )


def _mask_inverted(array: Array) -> Optional[Array]:
    """Return a mask that hides what it showed."""
    if array.dtype == bool:
        return ~array
    hidden = array.min() if array.size and array.min() < 0 else None
    return None if hidden is None else np.where(array < 0, 0, hidden).astype(array.dtype)


def _heads_in_turn(node: Node, inputs: Inputs) -> Iterator[Any]:
    """Yield an attention whose groups of queries take keys and values in turn."""
    heads, kept = (int(node.get(name, 0) or 0) for name in ("q_num_heads", "kv_num_heads"))
    if not 0 < kept < heads or heads % kept or has_input(inputs, 4):
        return
    times = heads // kept

    def repeated(array: Array) -> Array:
        shape = array.shape
        parts = array.reshape((*shape[:2], kept, -1))
        return np.tile(parts, (1, 1, times, 1)).reshape((*shape[:2], -1))

    def made(given: Inputs, arithmetic: Arithmetic) -> List[Value]:
        wide = [moved(repeated, input_at(given, at)) for at in (1, 2)]
        whole = replace(node, attributes={**node.attributes, "kv_num_heads": heads}, outputs=1)
        return attention(whole, [given[0], *wide, *given[3:]], arithmetic)[:1]

    yield "in turn for the queries' heads", "each for neighbouring ones", made


def _negative(array: Array) -> Optional[Array]:
    return None if array.dtype == bool else -array


declare(
    "Attention",
    attribute("is_causal", (0, 1), 0),
    Reading("the mask", "left out", _without_mask),
    changed_input(3, "the mask", (("inverted", _mask_inverted), ("of the other sign", _negative))),
    attribute(
        "scale", _scales, lambda node, inputs: _size_of_head(node, inputs) ** -0.5, fitted=True
    ),
    attribute("softcap", (0.0,), 0.0, fitted=True),
    other_node("q_num_heads", _other_heads),
    computed_instead("the heads of keys and values", "in turn", _heads_in_turn),
    input_order(0, 3),
)
declare(
    "RotaryEmbedding",
    attribute("interleaved", (0, 1), 0),
    input_order(1, 3),
)
declare(
    "com.microsoft.RotaryEmbedding",
    attribute("interleaved", (0, 1), 0),
    input_order(2, 4),
)


def _other_counts_of_heads(node: Node, inputs: Inputs) -> List[int]:
    """each other number that divides the size"""
    x = input_at(inputs, 0).array
    return [heads for heads in range(1, x.shape[-1] + 1 if x.ndim == 3 else 1)
            if x.shape[-1] % heads == 0]  # fmt: skip


declare("com.microsoft.MultiHeadAttention", attribute("num_heads", _other_counts_of_heads))
declare(
    "com.microsoft.MultiHeadAttention com.microsoft.GroupQueryAttention",
    attribute("unidirectional", (0, 1), 0),
    attribute("do_rotary", (0, 1), 0),
    attribute("rotary_interleaved", (0, 1), 0),
    attribute("local_window_size", (-1,), -1),
    attribute(
        "scale",
        lambda node, inputs: [1.0, _size_of_head(node, inputs) ** -1.0],
        lambda node, inputs: _size_of_head(node, inputs) ** -0.5,
        fitted=True,
    ),
    attribute("softcap", (0.0,), 0.0, fitted=True),
    input_order(0, 3),
)
