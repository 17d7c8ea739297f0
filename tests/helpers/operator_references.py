"""Compares operators with onnxruntime, and their estimated errors with the spread of simulated
outputs.
"""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import ValueInfoProto, helper, numpy_helper

from goldwatch.operators import Arithmetic, Node, Value, compute

RUNTIME = tuple(int(number) for number in onnxruntime.__version__.split(".")[:2])
EXACT = Arithmetic(0.0, 0.0, 0.0)


def run_onnxruntime(kind, inputs, attributes=None, opset=17, outputs=1, constants=(), domain=""):
    """Run one node. ``None`` is an input that is not there; inputs whose numbers are in
    ``constants`` are initializers.
    """
    names = ["" if array is None else "in%d" % number for number, array in enumerate(inputs)]
    fed, fixed = [], []
    for number, (name, array) in enumerate(zip(names, inputs)):
        if array is not None and number in constants:
            fixed.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        elif array is not None:
            fed.append(
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
                )
            )
    made = ["out%d" % number for number in range(outputs)]
    results = [ValueInfoProto(name=name) for name in made]
    node = helper.make_node(kind, names, made, domain=domain, **(attributes or {}))
    graph = helper.make_graph([node], "one", fed, results, fixed)
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)],
        ir_version=8,
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        # The last onnxruntime for Python 3.7 ends at opset 18, and lacks some operators; newer ones
        # run them.
        if RUNTIME < (1, 15) and any(
            words in str(error)
            for words in (
                "only *guarantees* support",
                "NOT_IMPLEMENTED",
                "not a registered function",
            )
        ):
            pytest.skip(
                "onnxruntime %s has no %s of opset %d" % (onnxruntime.__version__, kind, opset)
            )
        raise
    return session.run(
        None, {entry.name: inputs[int(entry.name[2:])] for entry in session.get_inputs()}
    )


def arrays(node, inputs):
    """Compute a node as a device without roundings does."""
    return [value.array for value in compute(node, inputs, EXACT)]


def assert_equals_onnxruntime(
    kind, inputs, attributes=None, opset=17, outputs=1, tolerance=1e-4, constants=(), domain=""
):
    """Assert that a node is computed as by onnxruntime."""
    right = run_onnxruntime(kind, inputs, attributes, opset, outputs, constants, domain)
    node = Node(
        "onnx",
        "%s.%s" % (domain, kind) if domain else kind,
        attributes or {},
        version=opset,
        outputs=outputs,
    )
    made = compute(node, inputs, EXACT)
    assert len(made) >= len(right)
    for one, other in zip(made, right):
        assert one.array.shape == other.shape, (kind, attributes)
        assert_near(one.array, other, tolerance, 0.0 if one.error is None else one.error)


def assert_near(made, right, tolerance=1e-4, error=0.0):
    """Assert that values are equal up to a share of the largest, and to their errors (that of a
    near tie is what is between both).
    """
    right = np.asarray(right, np.float64)
    finite = np.isfinite(right)
    assert made.shape == right.shape
    np.testing.assert_array_equal(np.asarray(made, np.float64)[~finite], right[~finite])
    if finite.any():
        room = (
            tolerance * max(float(np.abs(right[finite]).max()), 1e-6)
            + np.broadcast_to(error, made.shape)[finite]
        )
        gone = np.abs(np.asarray(made, np.float64)[finite] - right[finite])
        assert np.all(gone <= room), "%d of %d differ, by up to %g" % (
            np.sum(gone > room),
            gone.size,
            gone.max(),
        )


def assert_error_matches_spread(
    node, inputs, generator, trials=200, factor=3.0, output=0, floor=1e-9, each=None
):
    """Assert that outputs of inputs that err by their errors scatter as far as the error of the
    output says, within a factor.

    Both are compared in the root mean square over all elements, and element by element that no one
    scatters wider (than ``each`` times).
    """
    stated = compute(node, inputs, EXACT)[output]
    assert stated.error is not None
    results = []
    for _ in range(trials):
        erring = [
            Value(value.array + value.error * generator.standard_normal(value.array.shape))
            if isinstance(value, Value) and value.error is not None
            else value
            for value in inputs
        ]
        results.append(compute(node, erring, EXACT)[output].array.astype(np.float64))
    scatter = np.sqrt(np.mean(np.square(np.array(results) - stated.array), axis=0))
    error = np.broadcast_to(stated.error, stated.array.shape)
    assert np.all(scatter <= (each or factor) * error + floor), (scatter / (error + floor)).max()
    rms, said = np.sqrt(np.mean(scatter**2)), np.sqrt(np.mean(np.square(error, dtype=np.float64)))
    assert rms / factor - floor <= said <= factor * rms + floor, (said, rms)


def with_error(array, share=1e-3):
    """Return values in double precision, each of which may err by a share of their root mean
    square.
    """
    array = np.asarray(array, np.float64)
    return Value(array, np.full(array.shape, share * (np.sqrt(np.mean(array**2)) + 1e-30)))
