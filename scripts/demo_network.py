#!/usr/bin/env python3
"""What scripts/demo does between goldwatch's own commands, on the small ResNet block in
tests/data/caffe/resblock.

demo_network.py check GOLDEN             compare golden files with the outputs that a real Caffe computed
demo_network.py device OUT [OP=FAULT…]   run the network on the stand-in of a device: OUT/dump and OUT/model.json
demo_network.py verdict RESULT.json OP   fail unless exactly this op was found (-: everything passed)
demo_network.py culprits COMPARED.json REPLAYED.json OP…   fail unless the comparison names the ops, in this order, and replay does too
demo_network.py same RESULT.json OTHER   fail unless both hold the same rows
demo_network.py overflow OUT             write a net that is too large for float16: OUT/overflow.prototxt, .caffemodel
"""  # noqa: E501

from __future__ import annotations

import json
import os
import sys

import numpy as np

DATA = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    "tests",
    "data",
    "caffe",
    "resblock",
)
GOLDEN_LIMIT = 1e-5


def main(words):
    commands = {
        "check": (check, 1),
        "device": (device, 1),
        "verdict": (verdict, 2),
        "same": (same, 2),
    }
    commands["culprits"] = culprits, 3
    commands["overflow"] = overflow, 1
    name, given = words[0] if words else "", words[1:]
    least = commands.get(name, (None, 0))[1]
    if (
        name not in commands
        or len(given) < least
        or (name not in ("device", "culprits") and len(given) != least)
    ):
        sys.stderr.write(__doc__)
        return 2
    return commands[name][0](*given)


def expected():
    """The outputs of a real Caffe, by layer and top; its automatic Split layers are copies of
    others.
    """
    with np.load(os.path.join(DATA, "expected_layer_outputs.npz")) as arrays:
        for key in arrays.files:
            layer, _, index = key.rpartition(":")
            if not layer.endswith("_split"):
                yield layer, int(index), arrays[key]


def check(folder):
    from goldwatch.dumps import GoldenSet

    found = GoldenSet(folder)
    largest, where, count = 0.0, "", 0
    for layer, index, values in expected():
        entry = found.find(layer, index)
        if entry is None:
            print("no golden file for output %d of layer %s" % (index, layer))
            return 1
        computed = found.tensor(entry).array()
        if computed.shape != values.shape:
            print(
                "%s:%d has the shape %s, Caffe gives %s"
                % (layer, index, computed.shape, values.shape)
            )
            return 1
        deviation = float(np.abs(computed - values).max() / np.abs(values).max())
        count += 1
        if deviation >= largest:
            largest, where = deviation, "%s:%d" % (layer, index)
    good = largest <= GOLDEN_LIMIT
    print(
        "%d layer outputs against a real Caffe's: largest deviation %.2g of the output's "
        "maximum (%s)" % (count, largest, where)
    )
    if not good:
        print("that is more than %g: the golden data cannot be trusted" % GOLDEN_LIMIT)
    return 0 if good else 1


def device(out, *faults):
    from goldwatch.netfiles.caffemodel import read_weights
    from goldwatch.testing.caffe_device import run_on_device

    inputs = {"data": np.load(os.path.join(DATA, "input_data.npy"))}
    weights = read_weights(os.path.join(DATA, "resblock.caffemodel"))
    model = run_on_device(
        os.path.join(DATA, "resblock.prototxt"),
        weights,
        inputs,
        "resblock",
        dict(fault.split("=") for fault in faults),
    )
    files = model.write_tree(os.path.join(out, "dump"), first_address=0x12C041000000)
    model.write_json(os.path.join(out, "model.json"))
    layouts = sorted({output.format for op in model.dumped_ops() for output in op.outputs})
    what = "computed wrong: " + ", ".join(faults) if faults else "all computed right"
    print(
        "%s: %d dump files of float16 ops, layouts %s; %s"
        % (os.path.join(out, "dump"), len(files), ", ".join(layouts), what)
    )
    return 0


def verdict(path, op):
    with open(path, encoding="utf-8") as stream:
        document = json.load(stream)
    summary = document["summary"]
    first = summary["first_divergence"]
    if op == "-":
        good = summary["verdict"] == "pass" and first is None and summary["passed"] > 0
        text = (
            "as it should be: %(passed)d tensors pass"
            if good
            else "a healthy run must pass, but the verdict is %(verdict)s"
        )
        print(text % summary)
        return 0 if good else 1
    if (
        summary["verdict"] != "fail"
        or first is None
        or first["op"] != op
        or first["inputs"] != "good"
    ):
        print(
            "the broken op is %s, but the result says: %s, first divergence %r"
            % (op, summary["verdict"], first)
        )
        return 1
    print("found: %s, and nothing before it" % op)
    return 0


def culprits(compared, replayed, *ops):
    summaries = []
    for path in (compared, replayed):
        with open(path, encoding="utf-8") as stream:
            summaries.append(json.load(stream)["summary"])
    named = [suspect["op"] for suspect in summaries[0]["suspects"]]
    found = [culprit["op"] for culprit in summaries[1]["culprits"]]
    if named != list(ops) or sorted(found) != sorted(ops):
        print(
            "wrong are %s; the comparison names %s, replay %s"
            % (", ".join(ops), ", ".join(named), ", ".join(found) or "none")
        )
        return 1
    print(
        "the comparison names %s; replay names it and, behind it, %s"
        % (ops[0], ", ".join(op for op in found if op != ops[0]))
    )
    return 0


def same(path, other):
    rows = []
    for name in (path, other):
        with open(name, encoding="utf-8") as stream:
            rows.append(
                {
                    row["tensor"]: (row["verdict"], row["metrics"])
                    for row in json.load(stream)["rows"]
                }
            )
    different = [
        tensor
        for tensor in sorted(set(rows[0]) | set(rows[1]))
        if rows[0].get(tensor) != rows[1].get(tensor)
    ]
    if different:
        print("rows that differ: " + ", ".join(different))
        return 1
    print("the same %d rows, to the last digit, as from the comparison afterwards" % len(rows[0]))
    return 0


def overflow(out):
    from goldwatch.base.protowire import field

    sizes = {"first": (32, 64, 400.0), "large": (64, 64, 30.0), "last": (64, 10, 0.2)}
    state = np.random.RandomState(0)
    text = (
        'name: "overflow"\nlayer { name: "data" type: "Input" top: "data" input_param { shape { '
        "dim: 4 dim: 32 } } }\n"
    )
    product = (
        'layer { name: "%s" type: "InnerProduct" bottom: "%s" top: "%s" inner_product_param { '
        "num_output: %d bias_term: false } }\n"
    )
    layers = b""
    below = "data"
    for name, (rows, columns, scale) in sizes.items():
        values = (state.standard_normal((columns, rows)) * scale).astype("<f4")
        shape = field(7, b"".join(field(1, size) for size in values.shape))
        layers += field(
            100,
            field(1, name.encode())
            + field(2, b"InnerProduct")
            + field(7, shape + field(5, values.tobytes())),
        )
        text += product % (name, below, name, columns)
        below = name
        if name == "large":
            text += (
                'layer { name: "down" type: "Power" bottom: "large" top: "down" power_param { '
                "scale: 0.00012207031 } }\n"
            )
            below = "down"
    os.makedirs(out, exist_ok=True)
    for name, data in (
        ("overflow.prototxt", text.encode()),
        ("overflow.caffemodel", field(1, b"overflow") + layers),
    ):
        with open(os.path.join(out, name), "wb") as stream:
            stream.write(data)
    print("%s: a net of three products, of which the second is too large for float16" % out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
