"""The kinds of cases: each makes its input below the current folder from a random.Random, gives it
to goldwatch, and says what is wrong.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil

import numpy as np

from goldwatch.adapters.onnx.randomness import Randomness
from goldwatch.adapters.onnx.values_to_save import make_plan
from goldwatch.adapters.read_npy import read_npy
from goldwatch.adapters.tensorflow.tfdbg_listing import parse_listing
from goldwatch.base.errors import GoldwatchError
from goldwatch.base.naming import read_mapping
from goldwatch.config.check import check_file
from goldwatch.dumps import DumpFile
from goldwatch.dumps.npy import open_npy
from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.model.read_model import load_model
from goldwatch.netfiles.caffe_net import Net, State
from goldwatch.netfiles.caffemodel import read_mean, read_weights, weight_shapes
from goldwatch.netfiles.onnx_external_data import check_external
from goldwatch.netfiles.onnx_model import OnnxModel
from goldwatch.netfiles.prototxt_edits import read_document

from . import judge, seeds
from .mutate import changed, damaged, damaged_head, text_of

#: What a command may end with; 5 is run's alone.
CODES = (0, 1, 2, 3, 4)


def dumps(random, command):
    """One damaged dump file of a network of three ops, compared with whole golden data."""
    seeds.network(random)
    path = random.choice(seeds.files("dump"))
    _rewrite(path, lambda data: (damaged_head if random.random() < 0.7 else damaged)(random, data))
    return _compare(random, command, "-f", "model.json")


def npy(random, command):
    """One damaged golden file."""
    seeds.network(random)
    path = random.choice(seeds.files("golden"))
    _rewrite(
        path,
        lambda data: (damaged_head if random.random() < 0.7 else damaged)(
            random, data, *((128,) if random.random() < 0.5 else ())
        ),
    )
    return _compare(random, command, "-f", "model.json")


def headers(random, command):
    """npy headers written by hand: orders, types, shapes that do not fit, Python 2's numbers."""
    seeds.network(random)
    path = random.choice(seeds.files("golden"))
    array = np.load(path)
    shape = random.choice(
        [
            "(%d,)" % array.size,
            "(%dL,)" % array.size,
            "()",
            "(0, 4611686018427387904)",
            "(-1,)",
            "(2,%d)" % (array.size // 2),
            "(True,)",
        ]
    )
    kind = random.choice(
        ["<f4", ">f4", "<f2", "<f8", "|b1", "<i4", "|O", "<c8", "<U4", "V4", "[('a', '<f4')]"]
    )
    text = "{'descr': %s, 'fortran_order': %s, 'shape': %s, }" % (
        kind if kind[0] == "[" else repr(kind),
        random.choice(("True", "False", "0")),
        shape,
    )
    head = text.encode() + b" " * random.randint(0, 70) + b"\n"
    version = random.choice((b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x04\x00"))
    length = len(head).to_bytes(2 if version[0] == 1 else 4, "little")
    with open(path, "wb") as stream:
        stream.write(b"\x93NUMPY" + version + length + head + array.tobytes())
    return _compare(random, command, "-f", "model.json")


def models(random, command):
    """A model json or text graph that is wrong somewhere."""
    seeds.network(random)
    with open("model.json", encoding="utf-8") as stream:
        document = json.load(stream)
    if random.random() < 0.3:
        text = seeds.GE_TEXT
        with open("model.json", "wb") as stream:
            stream.write(damaged(random, text.encode(), 6))
        os.rename("model.json", "ge_proto_00000000_Build.txt")
        return _compare(random, command, "-f", "ge_proto_00000000_Build.txt")
    with open("model.json", "wb") as stream:
        stream.write(text_of(random, changed(random, document)))
    return _compare(random, command, "-f", "model.json")


def names(random, command):
    """Files and folders with names that are almost those of dumps and golden data."""
    seeds.network(random)
    for _ in range(random.randint(1, 6)):
        path = random.choice(seeds.files("dump") + seeds.files("golden"))
        folder, name = os.path.split(path)
        new = damaged(random, os.fsencode(name), 2).replace(b"/", b"_").replace(b"\0", b"_")[:255]
        if new not in (b"", b".", b"..") and not os.path.lexists(
            os.path.join(os.fsencode(folder), new)
        ):
            os.rename(os.fsencode(path), os.path.join(os.fsencode(folder), new))
    if random.random() < 0.3:
        with open(
            os.path.join(
                os.path.dirname(random.choice(seeds.files("dump") or ["dump/x"])), "mapping.csv"
            ),
            "wb",
        ) as stream:
            stream.write(damaged(random, b"123456789012,Add.op_0.1.2.3\n12,Relu.op_1.1.2.3\n", 6))
    return _compare(random, command, *(("-f", "model.json") if random.random() < 0.5 else ()))


def stores(random, command):
    """A damaged store of a run with a wrong op, continued: it must never end as a pass."""
    seeds.network(random, broken=1)
    words = ["compare", "dump", "golden", "-o", "out", "-f", "model.json", "--jobs", "1", "-q"]
    code, text = command(words)
    if code != 1:
        return "the run with a wrong op ended with %d: %s" % (code, text[-300:])
    _rewrite(
        os.path.join("out", "run.sqlite"),
        lambda data: _flipped(random, data) if random.random() < 0.7 else damaged(random, data),
    )
    code, text = command(words)
    if code in (0, 3):
        return "a damaged store turned a fail into exit code %d: %s" % (code, text[-300:])
    return _plain_end(code, text)


def limits(random, command):
    """Limits and other small languages of compare's options."""
    seeds.network(random, broken=random.choice((None, 1)))
    option = random.choice(
        ("--limit", "--metrics", "--range", "--select", "--time", "--limit", "--limit")
    )
    seed = {
        "--limit": "CosineSimilarity=0.99", "--metrics": "CosineSimilarity,MaxAbsoluteError",
        "--range": "0,3,1", "--select": "0,2-3",
        "--time": "all",
    }[option]  # fmt: skip
    value = damaged(random, seed.encode(), 3).replace(b"\0", b"").decode("utf-8", "surrogateescape")
    code, text = command(
        [
            "compare",
            "dump",
            "golden",
            "-o",
            "out",
            "-f",
            "model.json",
            "--jobs",
            "1",
            "-q",
            option,
            value,
        ]
    )
    return _plain_end(code, text)


def configurations(random, command):
    """acl.json, npu settings, plans and scripts, checked; what is written of a plan is clean."""
    kind = random.choice(("acl", "acl", "npu", "plan", "script"))
    if kind == "script":
        path, data = "train.py", damaged(random, random.choice(seeds.SCRIPTS).encode(), 3)
    else:
        path, data = (
            "config.json",
            text_of(random, changed(random, random.choice(seeds.CONFIGURATIONS[kind]))),
        )
    with open(path, "wb") as stream:
        stream.write(data)
    if kind == "plan" or random.random() < 0.3:
        form = random.choice(("acl", "estimator", "session", "tf2", "npu-json", "plan"))
        code, text = command(
            [
                "config",
                "new",
                "--plan",
                path,
                "--for",
                form,
                "-o",
                "written.py",
                "--elsewhere",
                "-q",
            ]
        )
        if code == 0 and form != "plan":
            shutil.move(
                "written.py",
                "written.py" if form in ("estimator", "session", "tf2") else "written.json",
            )
            name = "written.py" if os.path.exists("written.py") else "written.json"
            code, text = command(["config", "check", name, "--elsewhere", "--format", "json"])
            if code != 0:
                return "config new wrote what config check calls wrong: %s" % text[-400:]
        return _plain_end(code, text)
    code, text = command(
        ["config", "check", path, "--elsewhere", "--format", random.choice(("text", "json"))]
    )
    return _plain_end(code, text, (0, 1))


def merges(random, command):
    """config new --merge into any file: refused, or everything but the dump section is as it
    was.
    """
    document = dict(
        random.choice(seeds.CONFIGURATIONS["acl"]), profiler={"switch": "on", "list": [1, 2.50]}
    )
    before = text_of(random, changed(random, document))
    with open("acl.json", "wb") as stream:
        stream.write(before)
    code, text = command(
        ["config", "new", "--dump-path", "/data", "--elsewhere", "-q", "-o", "acl.json", "--merge"]
    )
    with open("acl.json", "rb") as stream:
        after = stream.read()
    if code != 0:
        return "a refused merge changed the file" if after != before else _plain_end(code, text)
    if before.strip():
        old, new = (json.loads(data.decode("utf-8-sig")) for data in (before, after))
        section = new.pop("dump")
        old.pop("dump", None)
        if old != new or section != {"dump_list": [{}], "dump_path": "/data"}:
            return "merging changed more than the dump section"
    return None


def nets(random, command):
    """prototxt and caffemodel files."""
    with open("net.prototxt", "wb") as stream:
        stream.write(damaged(random, seeds.PROTOTXT.encode(), 6))
    with open("net.caffemodel", "wb") as stream:
        stream.write(damaged(random, seeds.caffemodel(), 4))
    for read in (weight_shapes, read_weights, read_mean):
        try:
            read("net.caffemodel")
        except GoldwatchError:
            pass
    code, text = command(["golden", "caffe", "deinplace", "net.prototxt", "-o", "plain.prototxt"])
    return _plain_end(code, text)


def cuts(random, command):
    """A part of a net or of a frozen graph, and the next one after it."""
    with open("net.prototxt", "wb") as stream:
        stream.write(damaged(random, seeds.PROTOTXT.encode(), 3))
    with open("net.caffemodel", "wb") as stream:
        stream.write(damaged(random, seeds.caffemodel(), 2))
    with open("net.pb", "wb") as stream:
        stream.write(damaged(random, seeds.frozen_graph(), 3))
    model, names = random.choice(
        (
            ("net.prototxt", ("conv1", "relu1", "ip", "prob")),
            ("net.pb", ("add", "left", "merge", "out")),
        )
    )
    words = ["submodel", model, "--start", random.choice(names), "--end", random.choice(names)]
    shapes = [
        word
        for name in ("conv1", "data", "x", "add", "merge", "p")
        for word in ("--shape", name + "=1,2")
        if random.random() < 0.4
    ]
    code, text = command([*words, *shapes, "-o", "cuts"])
    problem = _plain_end(code, text)
    if problem is None and os.path.isdir("cuts") and os.listdir("cuts"):
        (folder,) = os.listdir("cuts")
        _rewrite(
            os.path.join("cuts", folder, "submodel.json"), lambda data: damaged(random, data, 2)
        )
        with open("result.json", "w", encoding="ascii") as stream:
            stream.write('{"summary": {"verdict": "fail", "first_divergence": null}}')
        again = [
            "submodel",
            model,
            "--narrow",
            os.path.join("cuts", folder),
            "--result",
            "result.json",
            "-o",
            "next",
        ]
        problem = _plain_end(*command(again + shapes))
    return problem


def manifests(random, command):
    """The manifest of a golden folder, and looking into it."""
    seeds.network(random)
    manifest = {
        "backend": "caffe", "backend_version": "1", "source": {"net": "0" * 64}, "complete": True,
        "skipped": [{"tensor": "x", "reason": "y"}],
        "tensors": [
            {"file": os.path.basename(path), "op": "op_0", "original_name": "op_0",
            "output_index": 0, "timestamp": 1, "dtype": "float32",
             "shape": [4], "sha256": "0" * 64}
            for path in seeds.files("golden")
        ],
    }  # fmt: skip
    with open("golden/manifest.json", "wb") as stream:
        stream.write(text_of(random, changed(random, manifest)))
    if random.random() < 0.5:
        code, text = command(
            [
                "inspect",
                random.choice(("golden", "golden/manifest.json", "dump")),
                "--format",
                random.choice(("text", "json")),
            ]
        )
        return _plain_end(code, text)
    return _compare(random, command, "-f", "model.json")


def listings(random, command):
    """tfdbg's list of tensors, as commands for it are made from."""
    with open("listing.txt", "wb") as stream:
        stream.write(damaged(random, seeds.LISTING.encode(), 8))
    code, text = command(
        ["golden", "tf", "commands", "listing.txt", "-o", "commands.txt", "--timestamp", "5"]
    )
    return _plain_end(code, text)


def conversions(random, command):
    """convert and inspect of one damaged file of either kind."""
    array = np.arange(24, dtype=random.choice(("<f4", "<f2", "<i4", "u1"))).reshape(2, 3, 4)
    if random.random() < 0.5:
        path = "Add.op.1.2.3"
        write_dump(path, outputs=[TensorData(array, format=random.choice(("ND", "NCHW")))])
    else:
        path = "op.0.0000000000000003.npy"
        np.save(path, array)
    _rewrite(path, lambda data: damaged_head(random, data, 200))
    words = random.choice(
        (
            ["inspect", path],
            ["inspect", path, "--format", "json"],
            ["convert", path, "-o", "out", "--jobs", "1"],
        )
    )
    code, text = command(words)
    return _plain_end(code, text)


def readers(random, command):
    """One damaged file given to the library's reader of its kind: its own error, or what the judge
    reads in it too.
    """
    name, data = random.choice(seeds.small_files())
    with open(name, "wb") as stream:
        stream.write((damaged_head if random.random() < 0.5 else damaged)(random, data))
    try:
        read = READERS[name](name)
    except GoldwatchError as error:
        return None if error.message else "an error without a sentence"
    if not isinstance(read, np.ndarray):
        return None
    try:
        expected = (
            judge.npy(name) if name.endswith(".npy") else judge.dump_tensor(name, "output", 0)
        )
    except (judge.Unreadable, judge.Abstain):
        return None  # the library reads more than the judge knows
    equal_nan = {"equal_nan": True} if read.dtype.kind in "fc" else {}
    if read.dtype.kind == expected.dtype.kind and np.array_equal(
        read.reshape(-1), expected.reshape(-1), **equal_nan
    ):
        return None
    return "it was read as %s of %s, the judge has %s of %s" % (
        read.dtype,
        read.shape,
        expected.dtype,
        expected.shape,
    )


def _stream(name):
    with open(name, "rb") as stream:
        return read_npy(stream, name, os.path.getsize(name), lambda shape, dtype: None)


def _listing(name):
    with open(name, "rb") as stream:
        return parse_listing(stream.read().decode("utf-8", "surrogateescape"), name)


def _onnx(name):
    model, drawn = OnnxModel(name), set()
    with model.open() as file:
        Randomness(model, file, {}).mark(model.graph.nodes, drawn)
    make_plan(model, drawn).possible_keys()
    check_external(model)


#: The readers of the files of seeds.small_files.
READERS = {
    "x.npy": lambda name: open_npy(name).array(),
    "y.npy": _stream,
    "Add.x.1.2.3": lambda name: DumpFile(name).array(),
    "model.json": load_model,
    "ge_proto_00000000_Build.txt": load_model,
    "mapping.csv": read_mapping,
    "net.prototxt": lambda name: Net(read_document(name), State()),
    "net.caffemodel": read_weights,
    "acl.json": lambda name: check_file(name, elsewhere=True),
    "train.py": lambda name: check_file(name, elsewhere=True),
    "listing": _listing,
    "net.onnx": _onnx,
}

KINDS = {
    kind.__name__: kind
    for kind in (
        *(
            dumps,
            npy,
            headers,
            models,
            names,
            stores,
            limits,
            configurations,
            merges,
            nets,
            cuts,
            manifests,
            listings,
            conversions,
        ),
        readers,
    )
}


def _rewrite(path, change):
    with open(path, "rb") as stream:
        data = stream.read()
    with open(path, "wb") as stream:
        stream.write(change(data))


def _flipped(random, data):
    data = bytearray(data)
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def _compare(random, command, *more):
    code, text = command(["compare", "dump", "golden", "-o", "out", "--jobs", "1", "-q", *more])
    problem = _plain_end(code, text)
    if problem or not os.path.exists("out/result.json"):
        return problem
    with open("out/result.json", encoding="utf-8") as stream:
        result = json.load(stream)
    passes = [row for row in result["rows"] if row["verdict"] == "pass"]
    if code == 0 and not passes:
        return "exit code 0 without a row that passes"
    if code == 0 and any(row["verdict"] == "fail" for row in result["rows"]):
        return "exit code 0 with a row that fails"
    by_tensor = {row["tensor"]: row for row in result["rows"]}
    for row in itertools.islice(passes, 20):
        if row["target_file"] and row["golden_file"]:
            # An output that was not dumped is judged by what the next op read.
            place = row["reason"].partition(": seen at ")[2].partition("; ")[0]
            read = by_tensor[place] if place else row
            target, golden = (
                os.path.join("dump", read["target_file"]),
                os.path.join("golden", row["golden_file"]),
            )
            found = judge.contradiction(target, read["kind"], read["tensor_index"], golden)
            if found:
                return "%s: %s" % (row["tensor"], found)
    return None


def _plain_end(code, text, codes=CODES):
    if code not in codes:
        return "exit code %r: %s" % (code, text[-400:])
    if "Traceback (most recent call last)" in text:
        return "a traceback: %s" % text[-1500:]
    return None
