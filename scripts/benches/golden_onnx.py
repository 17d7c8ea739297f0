"""`golden onnx dump` of a network with 150 MB of values against a plain run that saves nothing;
large external data; slices.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper

PLAIN = """
import sys
import numpy as np, onnxruntime
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
session.run(None, {"x": np.load(sys.argv[2])})
"""
IMPORTED = "import numpy, onnxruntime"


def convolutions(path, blocks):
    """A chain of blocks of 5x5 convolution, BatchNormalization and Relu; each value has 3 MiB;
    returns the bytes of all values.
    """
    state = np.random.RandomState(0)
    nodes, initializers, value = [], [], "x"
    for number in range(blocks):
        names = ["%s%d" % (letter, number) for letter in "cbr"]
        arrays = {
            "w%d" % number: state.standard_normal((64, 64, 5, 5)) / 40,
            "s%d" % number: np.ones(64),
            "o%d" % number: np.zeros(64),
            "m%d" % number: np.zeros(64),
            "v%d" % number: np.ones(64),
        }
        initializers += [
            onnx.numpy_helper.from_array(array.astype(np.float32), name)
            for name, array in arrays.items()
        ]
        weights = list(arrays)
        nodes.append(
            helper.make_node(
                "Conv", [value, weights[0]], [names[0]], name="conv%d" % number, pads=[2, 2, 2, 2]
            )
        )
        nodes.append(
            helper.make_node(
                "BatchNormalization", [names[0]] + weights[1:], [names[1]], name="bn%d" % number
            )
        )
        nodes.append(helper.make_node("Relu", [names[1]], [names[2]], name="relu%d" % number))
        value = names[2]
    shape = [1, 64, 112, 112]
    graph(path, nodes, initializers, shape, value)
    return (3 * blocks + 1) * int(np.prod(shape)) * 4


def matmuls(path, gib):
    """A chain of MatMul whose weights, so many GiB, lie in a file beside the model; they are
    written without being in memory at once.
    """
    size, width = int(gib * (1 << 30)), 4096
    count = max(1, size // (4 * width * width))
    nodes, initializers, value = [], [], "x"
    with open(os.path.join(os.path.dirname(path), "weights.bin"), "wb") as stream:
        block = (np.random.RandomState(0).standard_normal((width, width)) / 64).astype(np.float32)
        for number in range(count):
            tensor = TensorProto(
                name="w%d" % number, data_type=TensorProto.FLOAT, dims=[width, width]
            )
            tensor.data_location = TensorProto.EXTERNAL
            entries = {"location": "weights.bin", "offset": stream.tell(), "length": block.nbytes}
            for key, text in entries.items():
                tensor.external_data.add(key=key, value=str(text))
            block.tofile(stream)
            initializers.append(tensor)
            nodes.append(
                helper.make_node(
                    "MatMul", [value, tensor.name], ["m%d" % number], name="mm%d" % number
                )
            )
            value = "m%d" % number
    graph(path, nodes, initializers, [8, width], value)
    return count * block.nbytes


def graph(path, nodes, initializers, shape, last):
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    made = helper.make_graph(
        nodes,
        "g",
        inputs,
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        initializers,
    )
    proto = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with open(path, "wb") as stream:
        stream.write(proto.SerializeToString())
    np.save(
        os.path.join(os.path.dirname(path), "x.npy"),
        np.random.RandomState(1).standard_normal(shape).astype(np.float32),
    )


def timed(command):
    """Return seconds and the largest resident memory (MiB) of one process of the command's."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
        "stdout=subprocess.DEVNULL); "
    )
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        check=True,
        stdout=subprocess.PIPE,
        universal_newlines=True,
    )
    return time.perf_counter() - begun, int(done.stdout) / 1024


def both(folder, path, repeat, *words):
    """Return medians of seconds, and the peaks, of the plain script and of the whole command."""
    data = os.path.join(folder, "x.npy")
    plain, whole = [], []
    for _ in range(repeat):
        plain.append(timed([sys.executable, "-c", PLAIN, path, data]))
        out = os.path.join(folder, "golden")
        shutil.rmtree(out, ignore_errors=True)
        whole.append(
            timed(
                [
                    sys.executable,
                    "-m",
                    "goldwatch",
                    "golden",
                    "onnx",
                    "dump",
                    path,
                    "--input",
                    "x=" + data,
                    "-o",
                    out,
                    "-q",
                    *words,
                ]
            )
        )
    return [
        (float(np.median([run[0] for run in runs])), max(run[1] for run in runs))
        for runs in (plain, whole)
    ]


def main():
    parser = argparse.ArgumentParser(prog=sys.argv[0], description=__doc__)
    parser.add_argument(
        "--repeat", type=int, default=5, help="runs of each, in turns; the medians count"
    )
    parser.add_argument(
        "--blocks", type=int, default=16, help="of the network whose values are saved"
    )
    parser.add_argument(
        "--gib", type=float, default=2.4, help="of external data; 0 leaves that part out"
    )
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="goldwatch-bench-")
    try:
        path = os.path.join(folder, "m.onnx")
        nbytes = convolutions(path, options.blocks)
        base = timed([sys.executable, "-c", IMPORTED])[1]
        (plain_s, plain_mib), (whole_s, whole_mib) = both(folder, path, options.repeat)
        print("values of %.0f MB" % (nbytes / 1e6))
        print(
            "  a plain script: import, session, run, nothing saved %7.2f s, at most %5.0f MiB"
            % (plain_s, plain_mib)
        )
        print(
            "  golden onnx dump, the whole command                 %7.2f s, at most %5.0f MiB"
            % (whole_s, whole_mib)
        )
        print("  ratio (2.5 at most is wanted)                       %7.2f" % (whole_s / plain_s))
        (_, _), (sliced_s, sliced_mib) = both(folder, path, options.repeat, "--memory", "32")
        print("  the same with --memory 32                           %7.2f s, at most %5.0f MiB "
            "(importing alone takes %.0f)" % (
            sliced_s, sliced_mib, base,
        ))  # fmt: skip
        if options.gib:
            nbytes = matmuls(path, options.gib)
            (plain_s, plain_mib), (whole_s, whole_mib) = both(folder, path, 1)
            print("external data of %.2f GB" % (nbytes / 1e9))
            print(
                "  a plain script                                      %7.2f s, at most %5.0f MiB"
                % (plain_s, plain_mib)
            )
            print(
                "  golden onnx dump, the whole command                 %7.2f s, at most %5.0f MiB"
                % (whole_s, whole_mib)
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
