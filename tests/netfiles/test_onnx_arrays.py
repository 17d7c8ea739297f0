"""Tensors and attributes of ONNX models as arrays and values, beside what onnx itself reads."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from goldwatch.base.errors import FormatError
from goldwatch.netfiles.onnx_arrays import attributes_of, tensor_array
from goldwatch.netfiles.onnx_model import OnnxModel

TYPES = "float32 float64 float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool".split()


def read(path, proto):
    onnx.save(proto, str(path))
    model = OnnxModel(str(path))
    return model, model.graph


def attributes(path, **given):
    nodes = [helper.make_node("Thing", ["x"], ["y"], domain="some", **given)]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", 1, [1])], [value("y", 1, [1])])
    model, graph = read(path, helper.make_model(graph))
    with model.open() as file:
        return attributes_of(model, file, graph.nodes[0])


def values_of(dtype):
    values = np.random.RandomState(3).uniform(-100, 100, (2, 3, 4))
    return (
        (values > 0)
        if dtype == "bool"
        else np.abs(values).astype(dtype)
        if dtype.startswith("u")
        else values.astype(dtype)
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("form", ["raw", "field"])
def test_tensors_are_read_as_onnx_reads_them(tmp_path, dtype, form):
    values = values_of(dtype)
    tensor = numpy_helper.from_array(values)
    if form == "field":
        # float16 is given as the numbers that its bits are.
        flat = values.reshape(-1)
        tensor = helper.make_tensor("", tensor.data_type, values.shape, flat.tolist())
        assert not tensor.raw_data
    found = attributes(tmp_path / "m.onnx", value=tensor)["value"]
    expected = numpy_helper.to_array(tensor)
    assert found.dtype == expected.dtype == values.dtype and np.array_equal(found, expected)


@pytest.mark.parametrize("form", ["raw", "field"])
def test_a_bfloat16_tensor_is_read_as_float32(tmp_path, form):
    bits = np.arange(0x3F00, 0x3F0C, dtype=np.uint16)
    tensor = TensorProto(data_type=TensorProto.BFLOAT16, dims=[3, 4])
    if form == "raw":
        tensor.raw_data = bits.tobytes()
    else:
        tensor.int32_data.extend(bits.tolist())
    found = attributes(tmp_path / "m.onnx", value=tensor)["value"]
    assert found.dtype == np.float32 and np.array_equal(
        found.reshape(-1).view(np.uint32), bits.astype(np.uint32) << 16
    )


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)])
def test_scalars_and_empty_tensors_are_read(tmp_path, shape):
    values = np.full(shape, 2.5, np.float32)
    assert np.array_equal(
        attributes(tmp_path / "m.onnx", value=numpy_helper.from_array(values))["value"], values
    )


def test_initializers_in_external_files_are_read(tmp_path):
    values = np.random.RandomState(1).standard_normal((64, 64)).astype(np.float32)
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", 1, [64])],
        [value("y", 1, None)],
        [numpy_helper.from_array(values, "w")],
    )
    onnx.save(
        helper.make_model(graph),
        str(tmp_path / "m.onnx"),
        save_as_external_data=True,
        location="w.bin",
        size_threshold=0,
    )
    model = OnnxModel(str(tmp_path / "m.onnx"))
    with model.open() as file:
        assert np.array_equal(tensor_array(model.path, file, model.graph.initializers["w"]), values)


def test_onnx_attributes_of_every_kind_are_read(tmp_path):
    given = {
        "one": 3, "negative": -7, "zero": 0, "real": 0.5, "word": "same", "none": "",
        "ints": [1, -2, 3], "reals": [0.5, 2.0],
        "words": ["a", "b"],
    }  # fmt: skip
    assert attributes(tmp_path / "m.onnx", **given) == given


def test_a_tensor_with_too_few_values_is_refused(tmp_path):
    tensor = TensorProto(data_type=TensorProto.FLOAT, dims=[3], float_data=[1.0, 2.0])
    with pytest.raises(FormatError, match=r"has 2 values, its shape \[3\] needs 3"):
        attributes(tmp_path / "m.onnx", value=tensor)


def test_a_tensor_of_strings_is_refused(tmp_path):
    tensor = TensorProto(data_type=TensorProto.STRING, dims=[1], string_data=[b"a"])
    with pytest.raises(FormatError, match="which numpy has not"):
        attributes(tmp_path / "m.onnx", value=tensor)


NARROW = [
    name
    for name in "int4 uint4 int2 uint2 float4e2m1 float6e2m3 float6e3m2 float8e5m2".split()
    if hasattr(TensorProto, name.upper())
]


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("form", ["raw", "field"])
def test_a_tensor_of_a_type_that_numpy_lacks_is_read_as_onnx_reads_it(tmp_path, name, form):
    values = [0, 1, 1, 0, 1, 0, 1] if name == "uint2" else [0, 1, -1, -2, 1, 0, -1]
    values = [abs(value) for value in values] if name.startswith("u") else values
    tensor = helper.make_tensor("", getattr(TensorProto, name.upper()), [7], values)
    if form == "raw":
        tensor = numpy_helper.from_array(numpy_helper.to_array(tensor))
    assert bool(tensor.raw_data) == (form == "raw")
    found = attributes(tmp_path / "m.onnx", value=tensor)["value"]
    assert found.dtype in (np.int8, np.uint8, np.float32) and found.tolist() == values
