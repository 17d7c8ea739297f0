"""Rows and model of a network whose operators form a chain."""

from __future__ import annotations

import math

import numpy as np

from goldwatch.judging.diagnosis.own_error.normal_error import Measured, Normals
from goldwatch.metrics.row import Row
from goldwatch.model.graph import ModelGraph
from goldwatch.model.op_node import OpNode

TYPES = ("Conv2D", "BatchNorm", "Relu")
OPS = 30


def row(number, distance, factor=1.0, op_type=None, **fields):
    """The output of op ``number``, off by noise and by a common factor."""
    off = math.hypot(distance, factor - 1.0)
    spread = {
        side: {"mean": 0.0, "std": std}
        for side, std in (("target", math.hypot(factor, distance)), ("golden", 1.0))
    }
    values = {
        "CosineSimilarity": factor / math.hypot(factor, distance),
        "RelativeEuclideanDistance": off,
        "WorstSliceDistance": 1.2 * off,
        "StandardDeviation": spread,
    }
    name = "data" if number < 0 else "op%d" % number
    known = {
        "index": number + 1, "op": name,
        "op_type": op_type or ("Data" if number < 0 else TYPES[number % 3]),
        "tensor": name + ":output:0",
        "kind": "output", "verdict": "fail" if off > 0.03 else "pass", "tensor_index": 0,
        "op_sequence": number + 1, "metrics": values,
        "shape": (1, 64, 8, 8), "target_dtype": "float16", "golden_dtype": "float32",
        "golden_file": name,
        "target_file": "%s.%s" % (fields, name),
    }  # fmt: skip
    known.update(fields)
    return Row(**known)


def chain(count=OPS, type_of=lambda number: TYPES[number % 3]):
    nodes = [OpNode("data", "Data", 0, 0, 0)]
    for number in range(count):
        source = "op%d" % (number - 1) if number else "data"
        nodes.append(
            OpNode("op%d" % number, type_of(number), number + 1, 0, number + 1, ((source, 0),))
        )
    return ModelGraph("net", ["net"], nodes)


def normals_of(outputs):
    """What is normal by some outputs: operator, its type, distance, its inputs', rounding, a sum's
    noise.
    """
    names, types, *numbers = zip(*outputs)
    return Normals(
        Measured(list(zip(names, types)), np.arange(len(names)), *np.array(numbers, np.float64))
    )
