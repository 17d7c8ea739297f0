"""An operator that is right on what it read, which is not what the original model says: what the om
feeds it with, and since which operator the shape is another, are named.
"""

from __future__ import annotations

import dataclasses
import pathlib
import shutil

import numpy as np
import onnx_models as build
import pytest
from onnx import numpy_helper
from onnx.helper import make_node as node
from onnx_device import on_device, write_model
from onnx_run import float16_values
from scene_networks import only_suspect

from goldwatch.testing.device_dump import write_files
from goldwatch.testing.device_model import DeviceModel, DeviceOp, DeviceTensor

VIEWS = ("Reshape", "Unsqueeze")
FORMS = ("all", "output")
X, SQUARE = float16_values((4, 6)), float16_values((6, 6))


def compared(
    net, nodes, otherwise, feeds, held=(), form="all", constants=None, inserted=None,
    originals=None, lacks=(), fused=(),
):  # fmt: skip
    """Compare a device that computes ``otherwise`` with golden data of ``nodes``; what only
    reshapes has no task. Of ``constants`` the om holds inputs of the network; ``inserted``
    stands for no node of the original, others for the ``originals`` by their names; golden data
    lack nodes; of ``fused`` each is one op.
    """

    def graph(made):
        inputs = [build.value(name, array.shape) for name, array in feeds.items()]
        return build.model(made, inputs, [build.value("y", None)], held, 17)

    net.prepare(graph(nodes), feeds)
    build.save(pathlib.Path(net.path("b.onnx")), graph(otherwise))
    changed = DeviceModel("net")
    for op in on_device(net.path("b.onnx"), {**feeds, **(constants or {})}, fused).ops:
        if op.type in VIEWS:
            op = dataclasses.replace(op, attributes={**op.attributes, "_no_task": True})
        op = dataclasses.replace(op, originals=(originals or {}).get(op.name, op.originals))
        if op.name == inserted:
            op = dataclasses.replace(op, originals=())
        if op.name in (constants or {}):
            (tensor,) = op.outputs
            op = dataclasses.replace(op, type="Const", outputs=(DeviceTensor(tensor.array),))
        changed.add(op)
    if inserted:
        changed.add(DeviceOp("end", "NetOutput", ((inserted, 0),), (), originals=()))
    shutil.rmtree(net.path("dump"))
    write_files(net.path("dump"), [dump.only(form) for dump in changed.dumps()])
    write_model(changed, net.path("net.json"), "atc --model=m.onnx --framework=5")
    for name in lacks:
        (file,) = pathlib.Path(net.path("golden")).glob(name + ".*.npy")
        file.unlink()
    code, result, said = net.compare("--original", "m.onnx")
    return code, result["summary"], said


def reshaped(kind, to):
    """A network that computes on in the shape that one node makes of [4, 6]."""
    behind = node("Softmax", ["s"], ["r"], name="soft", axis=1)
    if kind == "Unsqueeze":
        held = build.weight("to", np.array([to]))
    else:
        held = build.weight("to", np.array(to))
    return [
        node("Tanh", ["x"], ["t"], name="first"),
        node(kind, ["t", "to"], ["v"], name="view"),
        node("Sigmoid", ["v"], ["s"], name="reader"),
        behind,
        node("Neg", ["r"], ["y"], name="last"),
    ], [held]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "kind, model, device, shapes",
    [
        ("Unsqueeze", 1, 0, ("[1, 4, 6]", "[4, 1, 6]")),
        ("Reshape", [3, 8], [6, 4], ("[6, 4]", "[3, 8]")),
        ("Reshape", [2, 3, 4], [4, 6], ("[4, 6]", "[2, 3, 4]")),
    ],
)
def test_a_shape_that_all_keep_is_named_with_what_makes_it(net, kind, model, device, shapes, form):
    """What goes wrong is the Softmax; the first that reads the other shape stands before it."""
    nodes, held = reshaped(kind, model)
    otherwise, (other,) = reshaped(kind, device)
    other.name = "other"
    otherwise[1].input[1] = "other"
    code, summary, said = compared(net, nodes, otherwise, {"x": X}, [*held, other], form)
    suspect = only_suspect(summary)
    assert suspect["op"] == "reader" and "another shape" in suspect["evidence"]
    (told,) = suspect["explanations"]
    text = "the device computed Sigmoid of an input in the shape %s; the model says %s, as %s view "
    assert told["kind"] == "other-tensor" and text % (*shapes, kind) in told["sentence"]
    assert "the values of soft (Softmax), which reads it so, are others" in told["sentence"]
    assert "compare %s view" % kind in told["next"]
    assert "inherited" not in said and (code == 1) == (kind == "Unsqueeze")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceMax"])
def test_what_makes_another_shape_is_named_not_its_reader(net, kind, form):
    def graph(keepdims):
        return [
            node("Tanh", ["x"], ["t"], name="first"),
            node(kind, ["t"], ["m"], name="op", axes=[1], keepdims=keepdims),
            node("Sub", ["t", "m"], ["s"], name="reader"),
            node("Neg", ["s"], ["y"], name="last"),
        ]

    code, summary, said = compared(net, graph(1), graph(0), {"x": SQUARE}, form=form)
    suspect = only_suspect(summary)
    (told,) = suspect["explanations"]
    assert code == 1 and suspect["op"] == "op" and "keepdims" in told["next"]
    assert "output of %s in the shape [6]; the model says [6, 1]" % kind in told["sentence"]
    assert "another shape than the original model says since op" in said
    assert "inherited" not in said


@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceMax"])
def test_what_makes_other_values_in_another_shape_is_told_by_its_values(net, kind):
    """Over another axis of the same size its reader reads another shape, too."""

    def graph(axis):
        return [
            node("Tanh", ["x"], ["t"], name="first"),
            node(kind, ["t"], ["m"], name="op", axes=[axis]),
            node("Sub", ["t", "m"], ["s"], name="reader"),
            node("Neg", ["s"], ["y"], name="last"),
        ]

    code, summary, said = compared(net, graph(1), graph(0), {"x": SQUARE})
    suspect = only_suspect(summary)
    (told,) = suspect["explanations"]
    assert code == 1 and suspect["op"] == "op" and told["kind"] == "attribute"
    assert "with axes [0]; the model says [1]" in told["sentence"]
    assert "right on what it read" not in said and "so the error is its own" in said


@pytest.mark.parametrize("kind, code", [("Sigmoid", 3), ("Transpose", 0)])
def test_an_output_that_no_original_operator_makes_is_not_called_right(net, kind, code):
    """A compiler moves values at the end; what computes them anew is not known to be right."""
    nodes = [
        node("Tanh", ["x"], ["t"], name="first"),
        node("Neg", ["t"], ["y"], name="last"),
    ]
    made, summary, said = compared(
        net, nodes, [*nodes[:1], node("Neg", ["t"], ["n"], name="last"), node(kind, ["n"], ["y"],
        name="added")], {"x": SQUARE}, inserted="added",
    )  # fmt: skip
    assert made == code and not summary["suspects"]
    assert ("output 0 of the network is made by added (Sigmoid)" in said) == (code == 3)


def lost(without):
    held = build.weight("to", np.array([4, 6]))
    return [
        node("Tanh", ["x"], ["t"], name="first"),
        *([] if without else [node("Transpose", ["t"], ["u"], name="op", perm=[1, 0])]),
        node("Reshape", ["t" if without else "u", "to"], ["v"], name="view"),
        node("Sigmoid", ["v"], ["s"], name="reader"),
        node("Neg", ["s"], ["y"], name="last"),
    ], [held]


@pytest.mark.parametrize("form", FORMS)
def test_a_transpose_that_is_lost_before_a_reshape_without_a_task_is_named(net, form):
    nodes, held = lost(False)
    code, summary, _ = compared(net, nodes, lost(True)[0], {"x": X}, held, form)
    suspect = only_suspect(summary)
    (told,) = suspect["explanations"]
    assert code == 1 and suspect["op"] == "reader"
    assert "with output 0 of first (Tanh) as its input 0" in told["sentence"]
    assert "of view (Reshape), which is that of output 0 of op (Transpose)" in told["sentence"]
    assert "compare the inputs of view in the om's json" in told["next"]


@pytest.mark.parametrize("left, reads", [(3, "second"), (2, "first"), (4, "")])
def test_an_output_handed_on_by_a_reshape_without_a_task_fails_where_it_is_another(
    net, left, reads
):
    """No dump is of the Reshape; golden data of what the om feeds it with are not its own."""
    nodes = [
        node("Tanh", ["x"], ["t"], name="first"),
        node("Cos", ["t"], ["c"], name="second"),
        node("Transpose", ["c"], ["u"], name="op", perm=[1, 0]),
        node("Reshape", ["u", "to"], ["y"], name="view"),
    ]
    held = [build.weight("to", np.array([3, 8]))]
    last = node("Reshape", [nodes[left - 2].output[0], "to"], ["y"], name="view")
    ops = [*nodes[: left - 1], last]
    code, summary, said = compared(net, nodes, ops, {"x": X}, held)
    assert (code, summary["suspects"]) == (int(bool(reads)), [])
    if reads:
        says = "no task and hands on output 0 of %s, whose golden data differ" % reads
        assert summary["first_divergence"]["op"] == "view" and says in said
        assert "the error is that of the om" in said


@pytest.mark.parametrize("form", FORMS)
def test_an_edge_drawn_otherwise_is_named_of_a_dump_of_outputs_too(net, form):
    def graph(read):
        return [
            node("Tanh", ["x"], ["t"], name="first"),
            node("Cos", ["x"], ["u"], name="second"),
            node("Mul", ["t", "u"], ["v"], name="both"),
            node("Sigmoid", [read], ["s"], name="op"),
            node("Add", ["s", "v"], ["y"], name="last"),
        ]

    code, summary, _ = compared(net, graph("t"), graph("u"), {"x": X}, form=form)
    suspect = only_suspect(summary)
    (told,) = suspect["explanations"]
    assert code == 1 and suspect["op"] == "op"
    assert (
        "with output 0 of second (Cos) as its input 0; the model says output 0 of first"
        in (told["sentence"])
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["Relu", "Sigmoid, Mul"])
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("with_golden", [True, False])
def test_an_activation_that_no_op_computes_is_named(net, kind, listed, form, with_golden):
    """The json calls a fused op's output that of its first node, and may list the last; golden data
    need not hold the first's.
    """
    first = node("MatMul", ["x", "w"], ["m"], name="op")
    behind = {
        "Relu": [node("Relu", ["m"], ["a"], name="act")],
        "Sigmoid, Mul": [
            node("Sigmoid", ["m"], ["g"], name="gate"),
            node("Mul", ["m", "g"], ["a"], name="act"),
        ],
    }[kind]
    held = [build.weight("w", float16_values((6, 6), seed=7))]
    nodes = [first, *behind, node("Sin", ["a"], ["y"], name="last")]
    otherwise = [first, node("Sin", ["m"], ["y"], name="last")]
    names = {"op": tuple(one.name for one in nodes[:-1])} if listed else {}
    feeds = {"x": float16_values((16, 6))}
    lacks = () if with_golden else [one.name for one in nodes[:-2]]
    code, summary, _ = compared(
        net, nodes, otherwise, feeds, held, form, originals=names, lacks=lacks
    )
    suspect = only_suspect(summary)
    (told,) = suspect["explanations"]
    says = (
        "with output 0 of op (MatMul) as its input 0; the model says output 0 of act (%s), so it "
    )
    assert code == 1 and suspect["op"] == "last"
    assert says % kind.split()[-1] in told["sentence"]
    assert "computed no %s between them, and what it read differs" % kind in told["sentence"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind, value", [("Add", 0.0), ("Mul", 1.0)])
def test_a_constant_in_place_of_an_input_of_the_network_is_named(net, kind, value, form):
    nodes = [
        node("Tanh", ["x"], ["t"], name="first"),
        node(kind, ["t", "m"], ["a"], name="op"),
        node("Softmax", ["a"], ["y"], name="last"),
    ]
    feeds = {"x": SQUARE, "m": float16_values((6, 6), seed=4)}
    constants = {"m": np.full((6, 6), value, np.float32)}
    code, summary, said = compared(net, nodes, nodes, feeds, (), form, constants)
    suspect = only_suspect(summary)
    (told,) = suspect["explanations"]
    which = "the constant m (%g throughout)" % value if form == "all" else "the constant m"
    assert code == 1 and suspect["op"] == "op" and "within their limits" not in said
    assert (
        "%s with %s as its input 1; the model says the network's input m" % (kind, which)
        in (told["sentence"])
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "made", [lost(False), reshaped("Unsqueeze", 1), reshaped("Reshape", [3, 8])]
)
def test_a_healthy_device_with_reshapes_without_a_task_is_told_nothing_of(net, made, form):
    nodes, held = made
    code, summary, _ = compared(net, nodes, nodes, {"x": X}, held, form)
    assert (code, summary["suspects"]) == (0, [])


@pytest.mark.parametrize("form", FORMS)
def test_an_edge_from_another_input_of_the_network_is_told_through_a_view(net, form):
    def graph(source):
        return [
            node("Unsqueeze", [source, "axes"], ["v"], name="view"),
            node("Sigmoid", ["v"], ["s"], name="reader"),
            node("Mul", ["s", "big"], ["m"], name="behind"),
            node("Tanh", ["m"], ["t"], name="last"),
            node("Add", ["t", "one"], ["y"], name="end"),
        ]

    feeds = {"one": X, "other": 3 * X[::-1]}
    held = [build.weight("axes", np.array([0])), build.weight("big", np.float32(2))]
    code, summary, _ = compared(net, graph("other"), graph("one"), feeds, held, form)
    suspect = summary["suspects"][0]
    told = suspect["explanations"][0]
    assert (code, suspect["op"], told["kind"]) == (1, "reader", "other-tensor")
    assert "Sigmoid with output 0 of one (Data) as its input 0; the model says" in told["sentence"]
    assert "which is that of the network's input other" in told["sentence"]


@pytest.mark.parametrize("form", FORMS)
def test_an_input_of_the_network_that_an_operator_lacks_is_told(net, form):
    def graph(state):
        return [node("LSTM", ["x", "w", "r", "", "", state], ["y"], name="op", hidden_size=5)]

    held = [
        build.weight("w", float16_values((1, 20, 6), 1) / 3),
        build.weight("r", float16_values((1, 20, 5), 2) / 3),
    ]
    feeds = {"x": float16_values((7, 2, 6)), "state": float16_values((1, 2, 5), 3)}
    code, summary, said = compared(net, graph("state"), graph(""), feeds, held, form)
    (told,) = only_suspect(summary)["explanations"]
    assert code == 1 and told["kind"] == "attribute", said
    assert "LSTM with initial_h missing; the model has initial_h (" in told["sentence"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("folded", [True, False])
def test_an_operator_lost_inside_of_a_fused_one_is_told(net, form, folded):
    """Its name is none of any op's either where it was folded into the weights before it."""
    numbers = {name: np.float32(0.5 + float16_values(4, 3) ** 2) for name in "smv"}
    held = [build.weight("w", float16_values((4, 3, 3, 3), 1) / 5)]
    held += [build.weight(name, values) for name, values in numbers.items()]
    held += [build.weight("b", np.zeros(4, np.float32))]
    factor = numbers["s"] / np.sqrt(numbers["v"] + 1e-5)
    held += [build.weight("f", (numpy_helper.to_array(held[0]) * factor[:, None, None, None]))]
    held += [build.weight("o", -numbers["m"] * factor)]
    ends = [
        node("Relu", ["n"], ["r"], name="relu"),
        node("Sigmoid", ["r"], ["y"], name="last"),
    ]
    model = [
        node("Conv", ["x", "w"], ["c"], name="conv"),
        node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], name="norm"),
        *ends,
    ]
    device = [node("Conv", ["x", "f", "o"] if folded else ["x", "w"], ["n"], name="conv"), *ends]
    code, summary, said = compared(
        net, model, device, {"x": float16_values((2, 3, 8, 8))}, held, form,
        fused=[("conv", "relu")],
    )  # fmt: skip
    if folded:
        assert (code, summary["suspects"]) == (0, []), said
        return
    suspect = only_suspect(summary)
    (told,) = suspect["explanations"]
    assert (
        "the device computed nothing (its input as it is) for BatchNormalization; "
        in (told["sentence"])
    )
    assert "not what the original model says" not in said


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [0.0, -60000.0])
def test_a_pad_of_the_oms_own_stands_for_the_pads_of_the_operator_behind_it(net, form, value):
    """What it pads with is told where that is other than the model says."""

    def graph(pads, before=()):
        read = "p" if before else "t"
        pool = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": pads}
        return [
            node("Neg", ["x"], ["t"], name="first"),
            *before,
            node("MaxPool", [read], ["m"], name="op", **pool),
            node("Sigmoid", ["m"], ["y"], name="last"),
        ]

    held = [
        build.weight("to", np.array([0, 0, 1, 1, 0, 0, 1, 1])),
        build.weight("value", np.float32(value)),
    ]
    own = node("Pad", ["t", "to", "value"], ["p"], name="own")
    feeds = {"x": 1 + np.abs(float16_values((2, 3, 8, 8)))}
    code, summary, said = compared(
        net, graph([1] * 4), graph([0] * 4, [own]), feeds, held, form, originals={"own": ()},
    )  # fmt: skip
    if value:
        assert (code, summary["suspects"]) == (0, []), said
        return
    (told,) = only_suspect(summary)["explanations"]
    assert code == 1 and "MaxPool with what its pads hold (count_include_pad" in told["sentence"]
