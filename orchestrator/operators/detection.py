"""Boxes: PriorBox and DetectionOutput of Caffe's SSD branch, pooling of regions as in Fast R-CNN
and R-FCN.

What a box holds and which boxes stay is decided by comparisons of float32 numbers, so these
operators compute in float32 and in the order of their sources, and only from values that are known
exactly (:func:`plain`).

Sources: prior_box_layer.cpp, detection_output_layer.cpp and bbox_util.cpp of weiliu89's SSD branch,
and OpenCV's layers of these names for what TextBoxes and its own nets add; roi_pooling_layer.cpp of
rbgirshick's Fast R-CNN; psroi_pooling_layer.cu of R-FCN.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from .registry import CannotCompute, Inputs, Node, input_at, operator
from .value_with_error import FLOAT32_ROUNDING, Arithmetic, Value

Array = Any
# confidence_threshold where a DetectionOutput has none: detection_output_layer.cpp takes -FLT_MAX.
_NO_LIMIT = -float(np.finfo(np.float32).max)


def plain(inputs: Inputs, arithmetic: Arithmetic) -> List[Array]:
    """Return the arrays of inputs of an operator of which nobody knows how far a right device may
    be off.

    Raises
    ------
    CannotCompute
        The inputs have errors, or the device's arithmetic is asked about.
    """
    if (
        arithmetic.accumulator
        or arithmetic.intermediate
        or any(value is not None and value.error is not None for value in inputs)
    ):
        raise CannotCompute("how far off a device may be in it is not known")
    return [input_at(inputs, number).array for number in range(len(inputs))]


def _numbers(node: Node, name: str) -> List[float]:
    return [float(number) for number in np.ravel(node.get(name, []))]


def _height_and_width(
    node: Node, name: str, high: str, wide: str, otherwise: Tuple[float, float]
) -> Tuple[float, float]:
    """Return (height, width) that are given together, as one, or not at all."""
    if high in node.attributes or wide in node.attributes:
        if name in node.attributes:
            raise CannotCompute("its %s and %s are both given" % (name, high))
        return float(node.get(high)), float(node.get(wide))
    size = float(node.get(name, 0))
    return (size, size) if size else otherwise


def _box_sizes(node: Node) -> List[Tuple[Any, Any]]:
    """Return (width, height) of the boxes at one place, float32: sizes are cut to whole numbers as
    the layer does.
    """
    ratios = [np.float32(1.0)]
    for ratio in map(np.float32, _numbers(node, "aspect_ratio")):
        if not any(abs(ratio - earlier) < 1e-6 for earlier in ratios):
            ratios += [ratio] + ([np.float32(1.0 / ratio)] if bool(node.get("flip", True)) else [])
    least, largest = _numbers(node, "min_size"), _numbers(node, "max_size")
    if not least or (largest and len(largest) != len(least)):
        raise CannotCompute("it has %d max_size for %d min_size" % (len(largest), len(least)))
    sizes: List[Tuple[Any, Any]] = []
    for number, size in enumerate(int(entry) for entry in least):
        sizes.append((np.float32(size), np.float32(size)))
        if largest:
            side = np.float32(np.sqrt(size * int(largest[number])))
            sizes.append((side, side))
        for ratio in ratios[1:]:
            sizes.append((np.float32(size * np.sqrt(ratio)), np.float32(size / np.sqrt(ratio))))
    return sizes


@operator(caffe=("PriorBox",))
def prior_box(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Boxes [1, 2, height · width · boxes · 4] around each place of the first input: corners in
    parts of the picture, and variances.

    With offset_h and offset_w (TextBoxes) each box stands at each of these offsets.
    """
    shape = input_at(inputs, 0).array.shape
    picture = _height_and_width(node, "img_size", "img_h", "img_w", (0.0, 0.0))
    if not all(picture):
        picture = tuple(map(float, input_at(inputs, 1).array.shape[2:4]))  # type: ignore[assignment]
    steps = _height_and_width(node, "step", "step_h", "step_w", (0.0, 0.0))
    if not all(steps):
        steps = picture[0] / shape[2], picture[1] / shape[3]
    own_offsets = [_numbers(node, name) for name in ("offset_h", "offset_w")]
    offsets = np.asarray(
        own_offsets if own_offsets[0] or own_offsets[1] else [[float(node.get("offset", 0.5))]] * 2,
        np.float32,
    )
    grids = [
        np.arange(size, dtype=np.float32)[:, None] + offset
        for size, offset in zip(shape[2:4], offsets)
    ]
    centres = [grid * np.float32(step) for grid, step in zip(grids, steps)]
    sizes = np.asarray(_box_sizes(node), np.float32)
    corners = np.zeros((shape[2], shape[3], len(sizes), offsets.shape[1], 4), np.float32)
    for axis, centre, key in ((0, centres[1][None, :, None], 1), (1, centres[0][:, None, None], 0)):
        half = sizes[:, axis].astype(np.float64)[:, None] / 2.0
        corners[..., axis] = (centre - half) / picture[key]
        corners[..., axis + 2] = (centre + half) / picture[key]
    if bool(node.get("clip", True)):
        corners = np.clip(corners, np.float32(0), np.float32(1))
    variance = _numbers(node, "variance") or [0.1]
    if len(variance) not in (1, 4):
        raise CannotCompute("it has %d variances" % len(variance))
    second = np.broadcast_to(np.asarray(variance, np.float32), corners.shape).reshape(-1)
    boxes = Value(np.stack([corners.reshape(-1), second])[None])
    return [boxes.with_step(4 * FLOAT32_ROUNDING) if arithmetic.intermediate else boxes]


def _decoded(node: Node, location: Array, priors: Array, variances: Array) -> Array:
    """Return corners [priors, 4] from a network's [priors, 4] numbers."""
    kind = str(node.get("code_type", "CORNER"))
    scale = (
        np.ones_like(variances)
        if bool(node.get("variance_encoded_in_target", False))
        else variances
    )
    size = priors[:, 2:] - priors[:, :2]
    if kind == "CORNER":
        return priors + scale * location
    if kind == "CORNER_SIZE":
        return priors + scale * location * np.concatenate([size, size], 1)
    if kind != "CENTER_SIZE":
        raise CannotCompute("its code_type %s is not known" % kind)
    middle = ((priors[:, :2] + priors[:, 2:]) / 2.0).astype(np.float32)
    centre = scale[:, :2] * location[:, :2] * size + middle
    half = (np.exp(scale[:, 2:] * location[:, 2:]) * size) / 2.0
    return np.concatenate([centre - half, centre + half], 1).astype(np.float32)


def _areas(boxes: Array) -> Array:
    sides = boxes[:, 2:] - boxes[:, :2]
    return np.where((sides < 0).any(1), np.float32(0), sides[:, 0] * sides[:, 1])


def _overlaps(box: Array, area: Any, boxes: Array, areas: Array) -> Array:
    """Return the shared part of a box and of each of others: their intersection by their union."""
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    shared = sides[:, 0] * sides[:, 1]
    return np.where((sides > 0).all(1), shared / (area + areas - shared), np.float32(0))


def _non_maximum_suppression(
    boxes: Array, scores: Array, least: float, threshold: float, eta: float, top: int
) -> List[int]:
    """Return which boxes stay, best first: each that overlaps none of those that stay by more than
    the threshold.
    """
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > np.float32(least)]
    if top > -1:
        order = order[:top]
    areas = _areas(boxes)
    numbers: List[int] = []
    limit = np.float32(threshold)
    for number in order:
        if (
            numbers
            and (
                _overlaps(boxes[number], areas[number], boxes[numbers], areas[numbers]) > limit
            ).any()
        ):
            continue
        numbers.append(int(number))
        if eta < 1 and limit > 0.5:
            limit = np.float32(limit * np.float32(eta))
    return numbers


def _detected(node: Node, boxes: Mapping[int, Array], scores: Array) -> Dict[int, List[int]]:
    """Return for one picture by label the numbers of the detected boxes, best first."""
    suppression = node.get("nms_param", {})
    least = float(node.get("confidence_threshold", _NO_LIMIT))
    threshold, eta = (
        float(suppression.get("nms_threshold", 0.3)),
        float(suppression.get("eta", 1.0)),
    )
    top, most = int(suppression.get("top_k", -1)), int(node.get("keep_top_k", -1))
    background = int(node.get("background_label_id", 0))
    numbers_by_label = {
        label: _non_maximum_suppression(
            boxes[label if label in boxes else -1], scores[:, label], least, threshold, eta, top
        )
        for label in range(scores.shape[1])
        if label != background
    }
    pairs = [(label, number) for label, numbers in numbers_by_label.items() for number in numbers]
    if -1 < most < len(pairs):
        order = np.argsort(
            -np.asarray([scores[number, label] for label, number in pairs]), kind="stable"
        )[:most]
        numbers_by_label = {}
        for label, number in (pairs[place] for place in order):
            numbers_by_label.setdefault(label, []).append(number)
    return numbers_by_label


@operator(caffe=("DetectionOutput",), decides=True)
def detection_output(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Detections [1, 1, count, 7] of (picture, label, score, corners), by picture, label and
    falling score.

    Where there is none: one row of -1 for each picture, behind its number.
    """
    location, confidence, priors = (
        np.asarray(array, np.float32) for array in plain(inputs, arithmetic)[:3]
    )
    classes, pictures = int(node.get("num_classes")), len(location)
    shared = bool(node.get("share_location", True))
    count = priors.shape[2] // 4
    around, variances = priors[0, 0].reshape(count, 4), priors[0, 1].reshape(count, 4)
    locations = location.reshape(pictures, count, 1 if shared else classes, 4)
    scores = confidence.reshape(pictures, count, classes)
    background = int(node.get("background_label_id", 0))
    rows: List[Sequence[Any]] = []
    for picture in range(pictures):
        labels = [-1] if shared else [label for label in range(classes) if label != background]
        boxes = {
            label: _decoded(node, locations[picture, :, 0 if shared else label], around, variances)
            for label in labels
        }
        if bool(node.get("clip", False)):
            boxes = {
                label: np.clip(detected, np.float32(0), np.float32(1))
                for label, detected in boxes.items()
            }
        detected = _detected(node, boxes, scores[picture])
        for label in sorted(detected):
            for number in detected[label]:
                box = boxes[-1 if shared else label][number]
                rows.append([picture, label, scores[picture, number, label], *box])
    if not rows:
        rows = [[picture] + [-1] * 6 for picture in range(pictures)]
    return [Value(np.asarray(rows, np.float32).reshape(1, 1, -1, 7))]


def _round_half_away(array: Array) -> Array:
    """Round as C does: halves away from zero."""
    return np.trunc(array + np.copysign(np.float32(0.5), array))


def _regions(array: Array, pictures: int) -> Array:
    """Return regions [count, 5], the first column the number of a picture."""
    rows = np.asarray(array, np.float32).reshape(len(array), -1)
    outside = [number for number, row in enumerate(rows) if not 0 <= int(row[0]) < pictures]
    if rows.shape[1] != 5 or outside:
        what = (
            "region %d is in picture %g" % (outside[0], rows[outside[0], 0])
            if outside
            else "regions have %d numbers" % rows.shape[1]
        )
        raise CannotCompute(
            "its %s; a region is the number of one of %d pictures and four corners"
            % (what, pictures)
        )
    return rows


def _bins(start: Any, size: Any, count: int, limit: int, before: bool) -> List[Tuple[int, int]]:
    """Return where each of ``count`` bins begins and ends; ``before``: the start is added before
    rounding.
    """
    edges = []
    for number in range(count):
        first, last = np.float32(number) * size, np.float32(number + 1) * size
        if before:
            pair = int(np.floor(first + start)), int(np.ceil(last + start))
        else:
            pair = int(np.floor(first)) + int(start), int(np.ceil(last)) + int(start)
        edges.append((min(max(pair[0], 0), limit), min(max(pair[1], 0), limit)))
    return edges


@operator(caffe=("ROIPooling",))
def roi_pooling(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Largest values in pooled_h × pooled_w bins of each region (picture, corners), from -FLT_MAX
    on without NaN; an empty bin holds 0.
    """
    x, regions = plain(inputs, arithmetic)[:2]
    counts = int(node.get("pooled_h")), int(node.get("pooled_w"))
    scale = np.float32(node.get("spatial_scale", 1.0))
    rows = _regions(regions, len(x))
    out = np.zeros((len(rows), x.shape[1]) + counts, np.float32)
    for number, row in enumerate(rows):
        left, top, right, bottom = (int(entry) for entry in _round_half_away(row[1:5] * scale))
        sides = [
            np.float32(max(bottom - top + 1, 1)) / np.float32(counts[0]),
            np.float32(max(right - left + 1, 1)) / np.float32(counts[1]),
        ]
        for i, (first, last) in enumerate(_bins(top, sides[0], counts[0], x.shape[2], False)):
            for j, (begin, end) in enumerate(_bins(left, sides[1], counts[1], x.shape[3], False)):
                if first < last and begin < end:
                    out[number, :, i, j] = np.fmax.reduce(
                        x[int(row[0]), :, first:last, begin:end], (1, 2), initial=_NO_LIMIT
                    )
    return [Value(out)]


@operator(caffe=("PSROIPooling",))
def psroi_pooling(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Means in group_size × group_size bins of each region, each bin from channels of its own."""
    x, regions = plain(inputs, arithmetic)[:2]
    outputs, group = int(node.get("output_dim")), int(node.get("group_size"))
    scale = np.float32(node.get("spatial_scale"))
    if x.shape[1] != outputs * group * group:
        raise CannotCompute(
            "its %d channels are not output_dim · group_size² = %d"
            % (x.shape[1], outputs * group * group)
        )
    rows = _regions(regions, len(x))
    out = np.zeros((len(rows), outputs, group, group), np.float32)
    for number, row in enumerate(rows):
        rounded = _round_half_away(row[1:5])
        left, top = rounded[:2] * scale
        right, bottom = (rounded[2:] + np.float32(1)) * scale
        sides = [
            np.float32(max(size, 0.1)) / np.float32(group) for size in (bottom - top, right - left)
        ]
        maps = x[int(row[0])].reshape((outputs, group, group) + x.shape[2:])
        for i, (first, last) in enumerate(_bins(top, sides[0], group, x.shape[2], True)):
            for j, (begin, end) in enumerate(_bins(left, sides[1], group, x.shape[3], True)):
                if first < last and begin < end:
                    out[number, :, i, j] = maps[:, i, j, first:last, begin:end].mean(
                        (1, 2), dtype=np.float64
                    )
    return [Value(out)]
