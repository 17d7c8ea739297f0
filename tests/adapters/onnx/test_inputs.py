"""Inputs of the model: files of every form, random numbers, and the files saved for the device's
run.
"""

from __future__ import annotations

import numpy as np
import onnx_models as build
import pytest
from in_process import run_here
from onnx import TensorProto, helper, numpy_helper

from goldwatch.cli.golden_messages import counted
from goldwatch.netfiles.narrow_types import decode, encode
from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor

node = helper.make_node
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5


@pytest.fixture
def run(tmp_path):
    """Run the command, and return how it ended."""
    return lambda path, *words: run_here(
        ["goldwatch", "golden", "onnx", "dump", path, "-o", "golden", *words], tmp_path
    )


def relu(tmp_path, shape=("N", 3), name="x", dtype=TensorProto.FLOAT, op="Abs"):
    nodes = [node(op, [name], ["y"], name="r")]
    return build.save(
        tmp_path / "m.onnx",
        build.model(nodes, [build.value(name, shape, dtype)], [build.value("y", None, dtype)]),
    )


def put(tmp_path):
    np.save(str(tmp_path / "x.npy"), X)
    np.save(str(tmp_path / "big.npy"), X.astype(">f4"))
    np.save(str(tmp_path / "fortran.npy"), np.asfortranarray(X))
    np.save(str(tmp_path / "double.npy"), X.astype(np.float64))
    np.savez(str(tmp_path / "both.npz"), x=X, other=np.zeros(3))
    np.savez(str(tmp_path / "one.npz"), something=X)
    X.tofile(str(tmp_path / "x.bin"))
    X.astype(np.float16).tofile(str(tmp_path / "half.bin"))
    (tmp_path / "raw.pb").write_bytes(numpy_helper.from_array(X).SerializeToString())
    (tmp_path / "list.pb").write_bytes(
        helper.make_tensor(
            "t", TensorProto.FLOAT, X.shape, X.reshape(-1).tolist()
        ).SerializeToString()
    )
    (tmp_path / "half.pb").write_bytes(
        helper.make_tensor(
            "t", TensorProto.FLOAT16, X.shape, X.reshape(-1).tolist()
        ).SerializeToString()
    )
    (tmp_path / "double.pb").write_bytes(
        helper.make_tensor(
            "t", TensorProto.DOUBLE, X.shape, X.reshape(-1).tolist()
        ).SerializeToString()
    )


@pytest.mark.parametrize(
    "spec",
    [
        "x.npy",
        "big.npy",
        "fortran.npy",
        "double.npy",
        "both.npz",
        "raw.pb",
        "list.pb",
        "half.pb",
        "double.pb",
        "x.bin",
        "half.bin,dtype=float16",
    ],
)
def test_files_of_every_form_give_the_same_values(tmp_path, golden, spec):
    put(tmp_path)
    found = golden(relu(tmp_path), "--input", "x=" + spec, "--shape", "x=2,3")
    assert (
        np.array_equal(found["r"], np.abs(X))
        and np.array_equal(found["x"], X)
        and found["x"].dtype == np.float32
    )


def test_integers_of_tensorproto_files_are_read(tmp_path, golden):
    values = [1, -2, 3, -4, 5, 6]
    for name, dtype in (("a", TensorProto.INT64), ("b", TensorProto.INT32)):
        (tmp_path / (name + ".pb")).write_bytes(
            helper.make_tensor("t", dtype, (2, 3), values).SerializeToString()
        )
        found = golden(
            relu(tmp_path, dtype=TensorProto.INT64), "--input", "x=%s.pb" % name, out=name
        )
        assert found["r"].tolist() == [[1, 2, 3], [4, 5, 6]]


def cached(tmp_path):
    """A model whose inputs have dots in their names, as exporters call a language model's cache,
    and a folder with a file for each.
    """
    names = ["ids", "past.0.key", "past.0.value"]
    nodes = [node("Add", names[:2], ["s"], name="s"), node("Mul", ["s", names[2]], ["y"], name="t")]
    (tmp_path / "in").mkdir()
    for number, name in enumerate(names, 2):
        np.save(str(tmp_path / "in" / (name + ".npy")), np.full((2, 3), number, np.float32))
    return build.save(
        tmp_path / "m.onnx",
        build.model(nodes, [build.value(name, (2, 3)) for name in names], [build.value("y", None)]),
    )


@pytest.mark.parametrize("more", [(), ("--random", "1")])
def test_a_folder_holds_a_file_for_each_input_by_its_name(tmp_path, golden, more):
    found = golden(cached(tmp_path), "--inputs", "in", *more)
    assert found["t"].tolist() == [[20.0] * 3] * 2  # (2 + 3) · 4


def test_a_file_of_no_input_is_named_and_not_silently_replaced_by_random_numbers(tmp_path, run):
    path = cached(tmp_path)
    (tmp_path / "in" / "past.0.key.npy").rename(tmp_path / "in" / "past.0.kye.npy")
    done = run(path, "--inputs", "in")
    assert (
        done.returncode == 2
        and "no file for the model's input past.0.key [2, 3] (past.0.key.npy or past_0_key.npy)"
        in done.stderr
    )
    assert "past.0.kye.npy is no input's file" in done.stderr
    done = run(path, "--inputs", "in", "--random", "1")
    assert done.returncode == 0 and "warning: in: past.0.kye.npy is no input's file" in done.stderr
    assert "input past.0.key is filled with random numbers" in done.stderr


def test_an_npz_without_the_input_s_key_is_refused(tmp_path, run):
    put(tmp_path)
    done = run(relu(tmp_path), "--input", "x=one.npz", "--shape", "x=2,3")
    assert done.returncode == 4 and "one.npz: no key x; it has something" in done.stderr


@pytest.mark.parametrize("dim", ["?", "", "unk__7", "???"])
def test_unnamed_dims_need_not_have_the_same_size(tmp_path, golden, dim):
    """As paddle2onnx and tf2onnx call dims that they do not know."""
    nodes = [node("Transpose", ["x"], ["t"], name="t"), node("MatMul", ["x", "t"], ["y"], name="m")]
    path = build.save(
        tmp_path / "m.onnx",
        build.model(nodes, [build.value("x", (dim, dim))], [build.value("y", (dim, dim))]),
    )
    found = golden(path, "--random", "1", "--shape", "x=2,5")
    assert (found["x"].shape, found["t"].shape, found["m"].shape) == ((2, 5), (5, 2), (2, 2))


def test_dims_of_one_name_must_have_the_same_size(tmp_path, run):
    nodes = [node("Add", ["x", "z"], ["y"], name="a")]
    inputs = [build.value("x", ("batch", 3)), build.value("z", ("batch", 3))]
    path = build.save(tmp_path / "m.onnx", build.model(nodes, inputs, [build.value("y", None)]))
    assert run(path, "--random", "1", "--shape", "x=2,3").returncode == 0


def test_a_folder_holds_a_file_for_each_input_by_its_sanitised_name(tmp_path, golden):
    nodes = [
        node("Add", ["in.put:0", "1"], ["s"], name="s"),
        node("Add", ["s", "in_put_0"], ["y"], name="t"),
    ]
    inputs = [build.value(name) for name in ("in.put:0", "1", "in_put_0")]
    path = build.save(tmp_path / "m.onnx", build.model(nodes, inputs, [build.value("y")]))
    first = golden(path, "--random", "1", out="first")
    names = {entry["name"]: entry["npy"] for entry in first.manifest["inputs"]}
    # A name of digits only would be a hash name; of two that look alike the one that is another's
    # own name gets a mark.
    assert names == {
        "in.put:0": "inputs/in_put_0_.npy",
        "1": "inputs/1_.npy",
        "in_put_0": "inputs/in_put_0.npy",
    }
    again = golden(path, "--inputs", str(tmp_path / "first" / "inputs"), out="again")
    assert np.array_equal(first["t"], again["t"])
    for name in names.values():
        (tmp_path / "first" / name).unlink()
    raw = golden(path, "--inputs", str(tmp_path / "first" / "inputs"), out="raw")
    assert np.array_equal(first["t"], raw["t"])


def test_random_numbers_are_the_same_for_the_same_seed(tmp_path, golden):
    """The numbers of a Mersenne Twister of numpy's, which no version of it changes."""
    found = golden(relu(tmp_path), "--random", "7", "--shape", "x=2,3")
    assert np.array_equal(
        found["x"], np.random.RandomState([7, 0]).standard_normal((2, 3)).astype(np.float32)
    )
    integers = golden(
        relu(tmp_path, dtype=TensorProto.INT64),
        "--random",
        "7",
        "--shape",
        "x=200,3",
        out="integers",
    )
    assert set(integers["x"].reshape(-1).tolist()) == {0, 1}


def test_a_named_dim_is_taken_from_the_input_that_was_given(tmp_path, golden):
    nodes = [node("Add", ["x", "z"], ["y"], name="a")]
    path = build.save(
        tmp_path / "m.onnx",
        build.model(
            nodes,
            [build.value("x", ("N", 3)), build.value("z", ("N", 3))],
            [build.value("y", None)],
        ),
    )
    np.save(str(tmp_path / "x.npy"), X)
    assert golden(path, "--input", "x=x.npy", "--random", "1")["z"].shape == (2, 3)


def test_an_output_of_a_device_dump_is_fed_as_an_input(tmp_path, golden):
    """As the Aipp op writes it: NC1HWC0, of three channels, in float16."""
    image = np.random.RandomState(0).standard_normal((1, 3, 4, 5)).astype(np.float16)
    model = DeviceModel("net")
    model.add(DeviceOp("data", "Data", outputs=(DeviceTensor(image, "NCHW", "NCHW"),)))
    model.add(
        DeviceOp(
            "aipp",
            "Aipp",
            inputs=(("data", 0),),
            outputs=(DeviceTensor(image, "NC1HWC0", "NCHW"),),
            originals=(),
        )
    )
    model.write_tree(str(tmp_path / "dump"))
    (dump,) = (tmp_path / "dump").rglob("Aipp.*")
    found = golden(relu(tmp_path, (1, 3, 4, 5)), "--input", "x=dump:%s" % dump)
    assert np.array_equal(found["x"], image.astype(np.float32))
    fed = golden(
        relu(tmp_path, (1, 3, 4, 5)), "--random", "1", "--feed", "r=dump:%s" % dump, out="fed"
    )
    assert np.array_equal(fed["r"], image.astype(np.float32)) and fed.entries["r", 0]["given"]


@pytest.mark.parametrize(
    "name",
    ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1", "float8e8m0"],
)
def test_8_bit_and_4_bit_floats_decode_as_specified(name):
    """Each code by the definition: sign, exponent and mantissa in bits."""
    forms = {
        "float8e4m3fn": (4, 3, 7),
        "float8e4m3fnuz": (4, 3, 8),
        "float8e5m2": (5, 2, 15),
        "float8e5m2fnuz": (5, 2, 16),
        "float4e2m1": (2, 1, 1),
    }
    forms["float8e8m0"] = (8, 0, 127)
    exponent_bits, mantissa_bits, bias = forms[name]
    total = 16 if name == "float4e2m1" else 256
    codes = np.arange(total, dtype=np.uint8)
    packed = codes[::2] | (codes[1::2] << 4) if total == 16 else codes
    values = decode(packed.astype(np.uint8), name, total)
    for code in range(total):
        sign = -1 if code >> (exponent_bits + mantissa_bits) else 1
        exponent, mantissa = (
            code >> mantissa_bits & ((1 << exponent_bits) - 1),
            code & ((1 << mantissa_bits) - 1),
        )
        if name == "float8e8m0":
            expected = float("nan") if code == 255 else 2.0 ** (code - 127)
        elif name.endswith("uz") and code == 128 or name == "float8e4m3fn" and code & 0x7F == 0x7F:
            expected = float("nan")
        elif name == "float8e5m2" and exponent == 31:
            expected = sign * float("inf") if mantissa == 0 else float("nan")
        elif exponent == 0:
            expected = sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
        else:
            expected = sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)
        assert values[code] == expected or (np.isnan(expected) and np.isnan(values[code]))
    finite = values[np.isfinite(values)]
    back = decode(np.frombuffer(encode(finite, name), np.uint8), name, finite.size)
    assert np.array_equal(back, finite)


@pytest.mark.parametrize(
    ("name", "low", "high"), [("int4", -8, 7), ("uint4", 0, 15), ("int2", -2, 1), ("uint2", 0, 3)]
)
def test_packed_integers_survive_encoding_and_decoding(name, low, high):
    values = np.array([*range(low, high + 1), low, high, low], np.int8 if low else np.uint8)
    raw = encode(values, name)
    assert len(raw) == -(-values.size * (4 if "4" in name else 2) // 8)
    assert np.array_equal(decode(np.frombuffer(raw, np.uint8), name, values.size), values)


def test_values_too_large_for_the_model_s_type_are_counted(tmp_path, run):
    np.save(str(tmp_path / "x.npy"), np.array([[1e300, -1e300, np.inf], [np.nan, 3e38, 0]]))
    done = run(relu(tmp_path), "--input", "x=x.npy")
    assert done.returncode == 0
    assert (
        "warning: x: 2 of the values in its file are too large for float32 and were fed as infinite"
        in done.stderr
    )
    np.array([1e300, 1, 2, 3, 4, 5]).tofile(str(tmp_path / "x.bin"))
    done = run(relu(tmp_path), "--input", "x=x.bin,dtype=float64", "--shape", "x=2,3", "--force")
    assert "warning: x: 1 of the values" in done.stderr
    np.save(str(tmp_path / "r.npy"), np.full((2, 3), 1e300))
    done = run(relu(tmp_path), "--random", "1", "--shape", "x=2,3", "--feed", "r=r.npy", "--force")
    assert "warning: y: 6 of the values" in done.stderr
    assert (
        "warning" not in run(relu(tmp_path), "--random", "1", "--shape", "x=2,3", "--force").stderr
    )


def test_counts_of_one_are_written_in_the_singular(tmp_path, run):
    assert (
        ": 2 golden files by onnxruntime"
        in run(relu(tmp_path), "--random", "1", "--shape", "x=2,3").stdout
    )
    text = counted(
        {"out": "golden", "counts": {"written": 1, "skipped": 1, "parked": 0}}, "onnxruntime", "1"
    )
    assert (
        text == "golden: 1 golden file by onnxruntime 1, 1 tensor skipped (manifest.json says why)"
    )
