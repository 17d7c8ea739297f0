"""What computing operators again costs: compare with --recompute none, auto and all, beside one
forward run of the same network.

    scripts/bench recompute --blocks 8 --batch 16

A convolutional network of residual blocks in four stages, as ResNet has them; the device computes
in float16, and its inputs and outputs are dumped. The forward run computes each node once with
goldwatch.operators in one process, in single precision and without errors, as a golden run would,
and reads and writes nothing but the model and its input. Processor time of whole processes, and of
the fastest of some rounds; all measured in turn.

With --culprit one convolution's output holds its values in an order that nothing explains, so that
all is tried that the device may have computed instead; beside it the same without this search.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time

import numpy as np

from goldwatch.operators import Value, compute
from goldwatch.recomputing.original_nodes import OnnxNodes
from goldwatch.recomputing.piece import EXACT
from goldwatch.recomputing.submodel.onnx_original import OnnxOriginal

HOW = ("none", "auto", "all")
CULPRIT = "s1b1a"
WITHOUT = """
from goldwatch.recomputing.recomputer import Recomputer
Recomputer.search_variants = lambda *arguments: None
from goldwatch.__main__ import main
main()
"""
"""goldwatch that looks for nothing that the device may have computed instead."""
STAGES = ((32, 56), (64, 28), (128, 14), (256, 7))
TIMESTAMP = 1767323045000000


def network(path, blocks, batch):
    """Write the model; return the shape of its input."""
    from onnx import TensorProto, helper, numpy_helper, save

    random = np.random.RandomState(0)
    nodes, weights = [], []

    def conv(name, source, inside, outside, kernel, stride=1):
        values = random.standard_normal((outside, inside, kernel, kernel)) / np.sqrt(
            inside * kernel * kernel
        )
        weights.append(numpy_helper.from_array(values.astype(np.float32), name + "/w"))
        pads = [kernel // 2] * 4
        nodes.append(
            helper.make_node(
                "Conv",
                [source, name + "/w"],
                [name],
                name=name,
                pads=pads,
                strides=[stride, stride],
            )
        )
        return name

    def node(kind, name, *sources):
        nodes.append(helper.make_node(kind, list(sources), [name], name=name))
        return name

    before, at = 3, "x"
    for stage, (channels, _) in enumerate(STAGES):
        at = conv("stage%d" % stage, at, before, channels, 3, 1 if not stage else 2)
        for block in range(blocks):
            name = "s%db%d" % (stage, block)
            inner = node("Relu", name + "r", conv(name + "a", at, channels, channels, 3))
            at = node(
                "Relu",
                name + "o",
                node("Add", name + "s", at, conv(name + "b", inner, channels, channels, 1)),
            )
        before = channels
    node("GlobalAveragePool", "y", at)
    shape = (batch, 3, STAGES[0][1], STAGES[0][1])
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "net", inputs, outputs, weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return shape


def forward(path, values, rounded=lambda array: array, wrong=""):
    """Compute in single precision; yield (node, inputs by their values' names, output) of the whole
    network, one after another; of the node that is wrong the values in another order.
    """
    original = OnnxOriginal.read(path)
    nodes = OnnxNodes(original)
    made = {(0, 0): values}
    for number in range(1, len(original.names)):
        call = nodes.call(number)
        inputs = [made[one] if isinstance(one, tuple) else rounded(one) for one in call.arguments]
        (output,) = compute(call.node, [Value(array) for array in inputs], EXACT)
        made[number, 0] = rounded(np.asarray(output.array, np.float32))
        if wrong and call.node.name == wrong:
            np.random.RandomState(2).shuffle(made[number, 0].reshape(-1))
        yield (
            call.node,
            [original.names[one[0]] for one in call.arguments if isinstance(one, tuple)],
            made[number, 0],
        )


def half(array):
    with np.errstate(over="ignore"):
        return array.astype(np.float16).astype(np.float32)


def make(root, blocks, batch, wrong=""):
    """Write model, dumps and golden data; return the size of the dumps in bytes."""
    from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor

    path = os.path.join(root, "net.onnx")
    shape = network(path, blocks, batch)
    values = half(np.random.RandomState(1).standard_normal(shape).astype(np.float32))
    np.save(os.path.join(root, "x.npy"), values)
    golden = os.path.join(root, "golden")
    os.mkdir(golden)
    np.save(os.path.join(golden, "x.0.%d.npy" % TIMESTAMP), values)
    for node, _, output in forward(path, values):
        np.save(os.path.join(golden, "%s.0.%d.npy" % (node.name, TIMESTAMP)), output)
    model = DeviceModel("net")
    model.add(
        DeviceOp(
            "x", "Data", outputs=(DeviceTensor(values.astype(np.float16), "NCHW", origin_name="x"),)
        )
    )
    for node, sources, output in forward(path, values, half, wrong):
        kind = {"Conv": "Conv2D"}.get(node.type, node.type)
        tensor = DeviceTensor(output.astype(np.float16), "NC1HWC0", origin_name=node.name)
        model.add(
            DeviceOp(
                node.name, kind, tuple((source, 0) for source in sources), (tensor,), (node.name,)
            )
        )
    files = model.write_tree(os.path.join(root, "dump"))
    model.write_json(os.path.join(root, "net.json"))
    return sum(os.path.getsize(name) for name in files)


def measured(root, rounds, culprit=False):
    """Return the least processor and wall seconds of each command, and what it computed."""
    from network import measure

    compare = [
        sys.executable,
        "-m",
        "goldwatch",
        "compare",
        "dump",
        "golden",
        "-f",
        "net.json",
        "-o",
        "out",
        "-q",
        "--force",
    ]
    if culprit:
        words = [*compare[3:], "--original", "net.onnx"]
        commands = {
            "as it is": [*compare, "--original", "net.onnx"],
            "no variants": [sys.executable, "-c", WITHOUT, *words],
        }
    else:
        commands = {how: [*compare, "--recompute", how, "--original", "net.onnx"] for how in HOW}
        commands["forward"] = [sys.executable, os.path.abspath(__file__), "--forward", root]
    here = os.getcwd()
    os.chdir(root)
    try:
        found = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                wall, processor, _, _, code = measure(command)
                if code != int(culprit):
                    raise SystemExit("%s ended with %d" % (" ".join(command), code))
                found[name].append((processor, wall, _ops(root) if name != "forward" else ""))
    finally:
        os.chdir(here)
    return {
        name: (min(one[0] for one in times), min(one[1] for one in times), times[0][2])
        for name, times in found.items()
    }


def _ops(root):
    """Return how many operators the last comparison computed again, how many of them are wrong, how
    many could not be.
    """
    with open(os.path.join(root, "out", "result.json"), encoding="utf-8") as stream:
        found = json.load(stream)["summary"].get("recomputed")
    return (
        "none"
        if found is None
        else "%d, %d wrong, %d not" % (found["ops"], found["wrong"], len(found["not_computed"]))
    )


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/bench recompute", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--blocks",
        type=int,
        default=6,
        help="Residual blocks of each of the four stages.  [default: 6]",
    )
    parser.add_argument("--batch", type=int, default=4, help="Pictures of 56 x 56.  [default: 4]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--culprit",
        action="store_true",
        help="One operator is wrong: with and without looking for what it computed instead.",
    )
    parser.add_argument("--dir", help="Where to work.  [default: a temporary folder]")
    parser.add_argument("--forward", metavar="ROOT", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.forward:
        for _ in forward(
            os.path.join(asked.forward, "net.onnx"), np.load(os.path.join(asked.forward, "x.npy"))
        ):
            pass
        return
    with tempfile.TemporaryDirectory(dir=asked.dir) as root:
        begin = time.monotonic()
        size = make(root, asked.blocks, asked.batch, CULPRIT if asked.culprit else "")
        print(
            "%d blocks, %.0f MB of dumps, made in %.0f s\n"
            % (4 * asked.blocks, size / 1e6, time.monotonic() - begin)
        )
        found = measured(root, asked.rounds, asked.culprit)
        if asked.culprit:
            (found_processor, found_wall, ops), (processor, wall, _) = found.values()
            print("operators computed again: %s" % ops)
            for words, times in (("with", found["as it is"]), ("without", found["no variants"])):
                print("%s variants: processor %.2f s, wall %.2f s" % (words, *times[:2]))
            print("processor %.2f, wall %.2f" % (found_processor / processor, found_wall / wall))
            return
        none, run = found["none"][0], found["forward"][0]
        print("| | processor | wall | beside none | without none, beside forward | ops computed |")
        print("|---|---|---|---|---|---|")
        for name, (processor, wall, ops) in found.items():
            beside = "%.2f" % (processor / none)
            share = "%.2f" % ((processor - none) / run) if name in ("auto", "all") else ""
            print(
                "| %s | %.2f s | %.2f s | %s | %s | %s |"
                % (name, processor, wall, beside, share, ops)
            )


if __name__ == "__main__":
    main()
