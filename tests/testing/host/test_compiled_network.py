"""Arithmetic of the stand-in device: float16 storage, precision options, planted faults."""

from __future__ import annotations

import os

import host_models
import numpy as np
import pytest
from caffe_as_tf import AsTensorflow
from onnx import helper
from onnx_models import model, save, value, weight

from goldwatch.netfiles.caffemodel import read_weights
from goldwatch.testing.host.compiled_network import CompiledNetwork
from goldwatch.testing.host.original_network import OriginalNetwork
from goldwatch.testing.host.precision_options import AtcError, Build, read_build
from goldwatch.testing.op_faults import KINDS, OpFault


def half(array):
    """Return what float16 keeps of float32 values."""
    with np.errstate(over="ignore"):
        return np.asarray(array, np.float32).astype(np.float16)


def outputs(device, **feeds):
    """Return each op's output 0 by name."""
    return {op.name: op.outputs[0].array for op in device.run(feeds).model.ops if op.outputs}


@pytest.fixture
def overflowing(tmp_path):
    return OriginalNetwork(host_models.overflowing_net(tmp_path / "over.onnx"))


X = np.array([[0.1, 0.5, 1.0, 2.0]], np.float32)


def test_each_op_of_the_device_rounds_to_float16(overflowing):
    made = outputs(CompiledNetwork(overflowing, Build(), "over"), x=X)
    times = half(half(X).astype(np.float32) * 400)
    square = half(times.astype(np.float32) ** 2)
    assert np.array_equal(made["times"], times) and made["times"].dtype == np.float16
    assert (
        np.array_equal(made["square"], square)
        and np.isinf(square[0, 2:]).all()
        and np.isfinite(square[0, :2]).all()
    )
    # onnxruntime 1.14, the last for Python 3.7, has NaN for the root of infinity.
    root = half(np.sqrt(square.astype(np.float32)))
    assert np.array_equal(made["root"][:, :2], root[:, :2])
    assert not np.isfinite(made["root"][:, 2:]).any()


def test_sums_are_accumulated_in_float32(tmp_path):
    # In float16 the sum would stay at 2048 from there on.
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="sum")]
    ones = [weight("w", np.ones((4096, 1), np.float32))]
    path = save(
        tmp_path / "sum.onnx", model(nodes, [value("x", (1, 4096))], [value("y", (1, 1))], ones)
    )
    made = outputs(
        CompiledNetwork(OriginalNetwork(path), Build(), "sum"), x=np.ones((1, 4096), np.float32)
    )
    assert made["sum"][0, 0] == 4096


@pytest.mark.parametrize(
    "build, single",
    [
        (Build(), []),
        (Build(keep=("square",)), ["square"]),
        (Build(keep=("square", "root")), ["square", "root"]),
        (Build(keep=("OpType::Mul",)), ["times", "square"]),
        (Build(mode="mixed", black=("Sqrt",)), ["root"]),
        (Build(mode="mixed"), []),
        (Build(customised={"square": ("float16", "float32")}), ["square"]),
        (
            Build(
                customised={
                    "OpType::Sqrt": ("float32", "float16"),
                    "OpType::Mul": ("float32", "float32"),
                }
            ),
            ["times", "square"],
        ),
        (Build(mode="float32"), ["times", "square", "root"]),
        (Build(mode="origin", keep=("square",)), ["times", "square", "root"]),
        (Build(mode="cube"), ["times", "square", "root"]),
    ],
)
def test_ops_kept_in_float32_are_computed_in_float32(overflowing, build, single):
    made = outputs(CompiledNetwork(overflowing, build, "over"), x=X)
    assert [
        name for name in ("times", "square", "root") if made[name].dtype == np.float32
    ] == single
    exact = (X.astype(np.float64) * 400) ** 2
    if "square" in single:
        assert np.allclose(made["square"], exact, rtol=2e-3)
    if single == ["square", "root"]:
        # The Cast behind root is the network's, and its values are far within float16's range.
        assert np.allclose(made["root"], X * 400, rtol=2e-3)
    if single == ["square"] and not build.customised:
        assert not np.isfinite(made["root"]).all()  # what reads it reads float16 again


def test_only_cube_units_read_float16_in_wide_mode(tmp_path):
    network = OriginalNetwork(host_models.conv_net(tmp_path / "net.onnx"))
    x = np.random.RandomState(0).rand(1, 3, 8, 8).astype(np.float32)
    made = outputs(CompiledNetwork(network, Build(mode="wide"), "net"), x=x)
    assert made["conv1relu1"].dtype == np.float16 and made["prob"].dtype == np.float32


def test_customised_types_of_a_fused_op_have_no_effect(tmp_path):
    network = OriginalNetwork(host_models.conv_net(tmp_path / "net.onnx"))
    x = np.random.RandomState(0).rand(1, 3, 8, 8).astype(np.float32)
    made = outputs(
        CompiledNetwork(
            network,
            Build(customised={"conv1": ("float32", "float32"), "fc": ("float32", "float32")}),
            "net",
        ),
        x=x,
    )
    assert made["conv1relu1"].dtype == np.float16 and made["fc"].dtype == np.float32
    kept = outputs(CompiledNetwork(network, Build(keep=("relu1",)), "net"), x=x)
    assert kept["conv1relu1"].dtype == np.float32


def test_fusions_are_switched_off_by_the_file(tmp_path):
    network = OriginalNetwork(host_models.conv_net(tmp_path / "net.onnx"))
    names = [
        group.name
        for group in CompiledNetwork(network, Build(fold=False, fuse=False), "net").groups
    ]
    assert names == ["conv1", "bn1", "relu1", "pool1", "flat", "fc", "prob"]
    assert [group.name for group in CompiledNetwork(network, Build(fuse=False), "net").groups][
        :2
    ] == [
        "conv1",
        "relu1",
    ]


def test_an_identity_op_is_removed(tmp_path):
    made = outputs(
        CompiledNetwork(
            OriginalNetwork(host_models.cast_only(tmp_path / "same.onnx")), Build(), "same"
        ),
        x=np.ones((2, 3), np.float32),
    )
    assert "same" not in made and np.array_equal(made["relu1"], np.ones((2, 3)))


def test_the_whole_network_is_close_to_float32(tmp_path):
    path = host_models.conv_net(tmp_path / "net.onnx")
    x = np.random.RandomState(0).rand(1, 3, 8, 8).astype(np.float32)
    ran = CompiledNetwork(OriginalNetwork(path), Build(), "net").run({"x": x})
    assert np.allclose(ran.outputs[0][1], host_models.golden(path, {"x": x})[0], atol=2e-3)
    assert ran.outputs[0][0] == "prob:0" and ran.outputs[0][1].dtype == np.float32


def faulty_net(path):
    """conv -> pool -> concat with itself -> bn: something for every kind of fault."""
    random = np.random.RandomState(3)
    weights = [
        weight("w", random.randn(8, 3, 3, 3).astype(np.float32)),
        weight("b", np.ones(8, np.float32)),
    ]
    weights += [
        weight(name, (random.rand(16) + 0.5).astype(np.float32)) for name in ("s", "o", "m", "v")
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["c"], ["p"], name="pool", kernel_shape=[3, 3], strides=[2, 2]),
        helper.make_node("Sigmoid", ["p"], ["q"], name="curve"),
        helper.make_node("Concat", ["p", "q"], ["j"], name="join", axis=1),
        helper.make_node("BatchNormalization", ["j", "s", "o", "m", "v"], ["y"], name="bn"),
    ]
    return save(
        path,
        model(nodes, [value("x", (1, 3, 9, 9))], [value("y", (1, 16, 4, 4))], weights, opset=13),
    )


PLACES = {"epsilon": "bn", "pooling": "pool", "axis": "join", "coarse": "curve"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_changes_its_op_and_none_before(tmp_path, kind):
    network = OriginalNetwork(faulty_net(tmp_path / "net.onnx"))
    x = np.random.RandomState(0).rand(1, 3, 9, 9).astype(np.float32)
    place = PLACES.get(kind, "conv")
    right = outputs(CompiledNetwork(network, Build(), "net"), x=x)
    wrong = outputs(CompiledNetwork(network, Build(), "net", {place: OpFault.parse(kind)}), x=x)
    order = list(right)
    for name in order[: order.index(place)]:
        assert np.array_equal(right[name], wrong[name]), name
    assert right[place].shape == wrong[place].shape and not np.array_equal(
        right[place], wrong[place]
    )
    assert not np.array_equal(right["bn"], wrong["bn"])


@pytest.mark.parametrize(
    ("op", "fault"),
    [("times", "scale:1"), ("times", "no-bias"), ("times", "axis"), ("times", "epsilon"),
     ("root", "saturation:100000"), ("times", "coarse:40")],
)  # fmt: skip
def test_a_fault_that_changes_nothing_is_refused(overflowing, op, fault):
    network = CompiledNetwork(overflowing, Build(), "over", {op: OpFault.parse(fault)})
    with pytest.raises(AtcError, match="changes nothing of %s" % op):
        network.run({"x": X})


def test_each_fault_does_what_it_is_called(tmp_path):
    network = OriginalNetwork(faulty_net(tmp_path / "net.onnx"))
    x = np.random.RandomState(0).rand(1, 3, 9, 9).astype(np.float32)
    right = outputs(CompiledNetwork(network, Build(), "net"), x=x)

    def wrong(place, text):
        return outputs(CompiledNetwork(network, Build(), "net", {place: OpFault.parse(text)}), x=x)[
            place
        ].astype(np.float64)

    conv, pool = right["conv"].astype(np.float64), right["pool"].astype(np.float64)
    assert np.allclose(wrong("conv", "scale:1.5"), conv * 1.5, rtol=2e-3)
    assert np.allclose(wrong("conv", "no-bias"), conv - 1, atol=2e-2)
    shorter = [
        [conv[0, :, 2 * r : 2 * r + 2, 2 * c : 2 * c + 2].max(axis=(1, 2)) for c in range(4)]
        for r in range(4)
    ]
    assert np.array_equal(wrong("pool", "pooling"), np.transpose(shorter, (2, 0, 1))[None])
    assert np.array_equal(wrong("pool", "channels"), np.roll(pool, 1, 1))
    # At stride 1 every window of one row and column further, the last ones included.
    further = wrong("conv", "pad")
    assert np.allclose(further[:, :, 1:, 1:], conv[:, :, :-1, :-1], rtol=2e-3, atol=2e-3)
    assert not np.allclose(further[:, :, 0], conv[:, :, 0], rtol=2e-3, atol=2e-3)


def test_coarse_arithmetic_is_cured_by_higher_precision(tmp_path):
    network = OriginalNetwork(faulty_net(tmp_path / "net.onnx"))
    x = np.random.RandomState(0).rand(1, 3, 9, 9).astype(np.float32)
    faults = {"curve": OpFault.parse("coarse:4")}
    right = outputs(CompiledNetwork(network, Build(), "net"), x=x)["curve"].astype(np.float64)

    def off(build):
        return np.abs(
            outputs(CompiledNetwork(network, build, "net", faults), x=x)["curve"] - right
        ).max()

    assert off(Build()) > 0.01
    for build in (
        Build(precise=("Sigmoid",)),
        Build(precise=("curve",)),
        Build(keep=("curve",)),
        Build(mode="float32"),
    ):
        assert off(build) < 0.001


def test_option_files_are_read_as_atc_reads_them(tmp_path):
    def written(name, text):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    keep = written("keep.cfg", "conv1\n\nOpType::SoftmaxV2\n")
    types = written(
        "types.cfg",
        "fc::InputDtype:float32,float32,OutputDtype:float32\nOpType::Add:InputDtype:float16,OutputDtype:float32\n",
    )
    modes = written(
        "modes.ini",
        "[ByType]\nExp = high_precision\nLog=high_performance\n[ByNodeName]\nprob = "
        "high_precision\n",
    )
    mix = written(
        "mix.json",
        '{"black-list": {"to-add": ["Exp"], "to-remove": ["Log"]}, "white-list": {"to-add": '
        '["Add"]}}',
    )
    fusion = written(
        "fusion.cfg", '{"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "on"}}}'
    )
    build = read_build(
        {
            "keep_dtype": keep,
            "customize_dtypes": types,
            "op_precision_mode": modes,
            "fusion_switch_file": fusion,
        }
    )
    assert (
        build.keep == ("conv1", "OpType::SoftmaxV2")
        and build.precise == ("Exp", "prob")
        and (build.fold, build.fuse) == (False, True)
    )
    assert build.customised == {"fc": ("float32", "float32"), "OpType::Add": ("float16", "float32")}
    for mode in ({"precision_mode": "allow_mix_precision"}, {"precision_mode_v2": "mixed_float16"}):
        mixed = read_build({"modify_mixlist": mix, **mode})
        assert mixed.black == ("Exp",) and mixed.mode == "mixed"
    assert Build.from_document(build.document()) == build
    with pytest.raises(AtcError, match="must be a mode of mixed precision"):
        read_build({"modify_mixlist": mix})


def test_a_network_of_two_frameworks_gives_the_same_outputs(tmp_path):
    prototxt, weights = (
        os.path.join(host_models.DATA, "resblock." + kind) for kind in ("prototxt", "caffemodel")
    )
    data = np.load(os.path.join(host_models.DATA, "input_data.npy"))
    (tmp_path / "res.pb").write_bytes(
        AsTensorflow(prototxt, read_weights(weights), {"data": data.shape}).graph
    )
    of_caffe = CompiledNetwork(OriginalNetwork(prototxt, weights), Build(), "res").run(
        {"data": data}
    )
    of_tensorflow = CompiledNetwork(OriginalNetwork(str(tmp_path / "res.pb")), Build(), "res").run(
        {"data": data.transpose(0, 2, 3, 1)}
    )
    found = [np.asarray(array, np.float64) for _, array in of_tensorflow.outputs]
    for name, array in of_caffe.outputs:
        wanted = array.transpose(0, 2, 3, 1) if array.ndim == 4 else array
        assert any(
            each.shape == wanted.shape and np.allclose(each, wanted, atol=2e-2, rtol=2e-2)
            for each in found
        ), name
    # Its layers, as a real Caffe computed them in float32.
    layers = np.load(os.path.join(host_models.DATA, "expected_layer_outputs.npz"))
    relu = next(op for op in of_caffe.model.ops if op.name == "res2ares2a_relu").outputs[0].array
    assert np.allclose(relu.astype(np.float32), layers["res2a_relu:0"], atol=2e-2)
