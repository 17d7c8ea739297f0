"""The stand-in's slices, shared memory and missing outputs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from goldwatch.base.errors import UsageError
from goldwatch.dumps import DumpFile
from goldwatch.proto import load_messages
from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor


def two_outputs() -> DeviceModel:
    model = DeviceModel("net")
    x = np.arange(12, dtype=np.float16).reshape(4, 3)
    model.add(DeviceOp("a", "Relu", (), (DeviceTensor(x, "ND", "ND", "a"),)))
    split = (DeviceTensor(x[:2], "ND", "ND", "s"), DeviceTensor(x[2:], "ND", "ND", "s", 1))
    model.add(DeviceOp("s", "Split", (("a", 0),), split, dumped_outputs=1))
    model.add(DeviceOp("r", "Relu", (("a", 0),), (DeviceTensor(-x, "ND", "ND", "r"),), in_place=0))
    return model


def test_slices_join_to_the_whole_and_their_headers_describe_the_cut() -> None:
    model = two_outputs()
    files = [dump for dump in model.dumps(generation="ffts+", threads=3) if ".a." in dump.name]
    assert [dump.name.split(".")[-4:] for dump in files] == [
        ["4", "0", str(thread), "0"] for thread in range(3)
    ]
    parts = [dump.outputs[0].data for dump in files]
    np.testing.assert_array_equal(np.concatenate(parts), model.output("a").array)
    data = files[1].content()
    header = load_messages().DumpData.FromString(data[8 : 8 + int.from_bytes(data[:8], "little")])
    cut = json.loads(header.attr[0].value)
    assert (cut["slice_instance_num"], cut["threadMode"], cut["outputCutList"]) == (
        3,
        True,
        [[3, 1]],
    )
    assert cut["output_tensor_slice"][1][0] == [
        {"lower": 1, "higher": 2},
        {"lower": 0, "higher": 3},
    ]
    assert [int(dim) for dim in header.output[0].shape.dim] == [1, 3]


def test_several_threads_are_refused_for_other_generations_than_ffts() -> None:
    with pytest.raises(UsageError):
        list(two_outputs().dumps(threads=2))


def test_outputs_in_shared_memory_and_missing_outputs_are_dumped_as_on_a_device(tmp_path) -> None:
    paths = two_outputs().write_tree(str(tmp_path), first_address=4096)
    split, relu = (
        DumpFile.open(next(path for path in paths if name in path)) for name in (".s.", ".r.")
    )
    assert len(split.outputs) == 1
    assert relu.inputs[0].address == relu.outputs[0].address != split.inputs[0].address
    np.testing.assert_array_equal(relu.tensor("input", 0).array(), relu.tensor("output", 0).array())
