"""Forms of input files, and images preprocessed as by Caffe's DataTransformer."""

from __future__ import annotations

import re
import struct
import warnings
import zipfile
import zlib

import numpy as np
import pytest

from goldwatch.adapters import read_npy
from goldwatch.adapters.caffe.images import (
    Transform,
    image_size,
    load_image,
    transform_from,
    with_options,
)
from goldwatch.adapters.caffe.input_plan import plan_batches
from goldwatch.adapters.caffe.inputs import load_item, random_input
from goldwatch.adapters.caffe.netinputs import NetInput, net_inputs, transform_of
from goldwatch.base.errors import FormatError, InputError, MissingPath, UsageError
from goldwatch.netfiles.caffe_net import Net, State
from goldwatch.netfiles.prototxt_edits import Document

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 5 } }
        transform_param { scale: 0.5 mean_value: 10 mean_value: 20 mean_value: 30 crop_size: 6 } }
layer { name: "two" type: "Input" top: "a" top: "b" input_param { shape { dim: 1 } shape { dim: 2 dim: 2 } } }
layer { name: "r" type: "ReLU" bottom: "data" top: "r" }
"""  # noqa: E501
LIMIT = 1 << 32
X = np.random.RandomState(3).standard_normal((2, 3, 4, 5)).astype(np.float32)


def load(spec, *, transform=None, net=NET, limit=1 << 32):
    inputs = net_inputs(Net(Document(net), State()))
    batch = plan_batches([spec], inputs, True)[0]
    entry = [entry for entry in inputs if entry.blob in batch.items][0]
    return load_item(batch.items[entry.blob], entry.shape, transform or Transform(), limit)


def test_npy_npz_and_raw_files_give_the_same_input(tmp_path):
    np.save(str(tmp_path / "x.npy"), X.astype(np.float64))
    np.savez(str(tmp_path / "x.npz"), data=X)
    X.tofile(str(tmp_path / "x.bin"))
    (X * 10).astype(np.int16).tofile(str(tmp_path / "i:1.bin"))
    for spec in (
        "data=%s/x.npy",
        "data=%s/x.npz",
        "%s/x.npz",
        "data=%s/x.bin:float32:2,3,4,5",
        "data=%s/x.bin:float32:2x3x4x5",
    ):
        got = load(spec % tmp_path)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, X)
    np.testing.assert_array_equal(
        load("data=%s/i:1.bin:int16:2,3,4,5" % tmp_path), np.trunc(X * 10)
    )


def test_batch_size_may_differ_and_may_be_left_out(tmp_path):
    np.save(str(tmp_path / "one.npy"), X[0])
    np.save(str(tmp_path / "seven.npy"), np.zeros((7, 3, 4, 5), np.uint8))
    assert load("data=%s/one.npy" % tmp_path).shape == (1, 3, 4, 5)
    assert load("data=%s/seven.npy" % tmp_path).shape == (7, 3, 4, 5)


@pytest.mark.parametrize(
    ("spec", "kind", "reason"),
    [
        ("data", UsageError, "not NAME=FILE"),
        ("=x.npy", UsageError, "not NAME=FILE"),
        ("nope={}/x.npy", UsageError, "nope, which is no input"),
        ("{}/keys.npz", UsageError, "other, which is no input"),
        ("data={}/x.bin", UsageError, "dtype and shape"),
        ("data={}/x.bin:float33:2,3", UsageError, "float33"),
        ("data={}/missing.npy", MissingPath, "does not exist"),
        ("data={}/keys.npz", InputError, "no key data; it has other"),
        ("data={}/x.bin:float32:2,3,4,6", InputError, "needs 576 bytes, the file has 480"),
        ("data={}/shape.npy", InputError, r"\[2, 3, 5, 4\], the net expects \[2, 3, 4, 5\]"),
        ("data={}/empty.npy", InputError, "is empty"),
        ("data={}/complex.npy", InputError, "complex64, not real"),
        ("data={}/object.npy", FormatError, "not an npy file"),
        ("data={}/garbage.npy", FormatError, "not an npy file of numbers: "),
        ("data={}/huge.npy", InputError, r"has the shape \[1099511627776, 1024\], the net expects"),
        ("data={}/damaged.npz", FormatError, "key data"),
        ("data={}/garbage.npz", FormatError, "not an npz file"),
        ("data={}/garbage.png", FormatError, "not an image"),
        ("data={}/none", MissingPath, "no file in this folder"),
    ],
)
def test_unusable_inputs_are_refused_with_the_reason(spec, kind, reason, tmp_path):
    X.tofile(str(tmp_path / "x.bin"))
    np.save(str(tmp_path / "x.npy"), X)
    np.savez(str(tmp_path / "keys.npz"), other=X)
    np.save(str(tmp_path / "shape.npy"), X.reshape(2, 3, 5, 4))
    np.save(str(tmp_path / "empty.npy"), X[:0])
    np.save(str(tmp_path / "complex.npy"), X.astype(np.complex64))
    np.save(str(tmp_path / "object.npy"), np.array([{}], object), allow_pickle=True)
    for suffix in ("npy", "npz", "png"):
        (tmp_path / ("garbage." + suffix)).write_bytes(b"garbage")
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1024), }"
    (tmp_path / "huge.npy").write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + header.ljust(117) + b"\n")
    np.savez_compressed(str(tmp_path / "damaged.npz"), data=X)
    archive = bytearray((tmp_path / "damaged.npz").read_bytes())
    archive[60:90] = b"\xff" * 30
    (tmp_path / "damaged.npz").write_bytes(bytes(archive))
    (tmp_path / "none").mkdir()
    with pytest.raises(kind, match=reason):
        load(spec.format(tmp_path))


def npy(header, data=b""):
    header = header.encode("latin1").ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4, 5), ",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4, 5}",
        "  {\n 'a'",
        "'''",
        "{'descr': '<f4' 'fortran_order'",
        "(" * 100,
        "{'descr': [], 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (10L, )}",
        "   'shape': (2, 3), }   \n\0\0\0\x80?\0",
    ],
)
def test_an_npy_file_with_a_broken_header_is_refused_in_plain_words(header, tmp_path):
    (tmp_path / "x.npy").write_bytes(npy(header))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError) as caught:
            load("data=%s/x.npy" % tmp_path)
    # Nothing of what numpy's tokenizer says.
    assert not re.search(
        "multi-line|EOF|was never closed|expected|descr|line ",
        caught.value.message.replace("the net expects", ""),
    )


def test_an_npy_header_written_by_python_2_is_read(tmp_path):
    (tmp_path / "x.npy").write_bytes(
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L, 4L, 5L), }", X.tobytes())
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(load("data=%s/x.npy" % tmp_path), X)


def test_fortran_order_and_big_endian_inputs_are_read(tmp_path):
    np.save(str(tmp_path / "f.npy"), np.asfortranarray(X))
    np.save(str(tmp_path / "b.npy"), X.astype(">f8"))
    for name in "fb":
        np.testing.assert_array_equal(load("data=%s/%s.npy" % (tmp_path, name)), X)


def test_dimensions_are_checked_before_anything_is_unpacked(tmp_path, monkeypatch):
    """Each file claims far more than it may: no reader is let to the values."""
    wide = (
        "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: "
        "30000 dim: 30000 } } }"
    )
    header = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (50, 3, 30000, 30000), }")
    with zipfile.ZipFile(str(tmp_path / "bomb.npz"), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", header + bytes(1 << 22))
    (tmp_path / "bomb.npy").write_bytes(header)
    monkeypatch.setattr(
        read_npy,
        "bytearray",
        lambda size: pytest.fail("%d bytes were allocated" % size),
        raising=False,
    )
    for name in ("bomb.npz", "bomb.npy"):
        with pytest.raises(
            InputError, match="needs 502.9 GiB in memory; the limit for one input is 4.0 GiB"
        ):
            load("data=%s/%s" % (tmp_path, name), net=wide)
    with pytest.raises(FormatError, match="4194432 bytes|4194304 are there"):
        load("data=%s/bomb.npz" % tmp_path, net=wide, limit=1 << 60)
    with pytest.raises(InputError, match="the limit for one input is 100 bytes"):
        np.save(str(tmp_path / "x.npy"), X)
        load("data=%s/x.npy" % tmp_path, limit=100)
    with pytest.raises(InputError, match="input data: an array of shape .1000000, 1000000. needs"):
        random_input(1, NetInput("data", (1000000, 1000000), 0, 0), 0)


def png(width, height, data=b""):
    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".ppm", ".pgm", ".webp", ".tiff"])
def test_image_sizes_are_read_and_truncated_images_are_refused(suffix, tmp_path):
    cv2 = pytest.importorskip("cv2")
    pixels = np.random.RandomState(0).randint(0, 256, (37, 50, 3)).astype(np.uint8)
    path = str(tmp_path / ("i" + suffix))
    cv2.imwrite(path, pixels[:, :, 0] if suffix == ".pgm" else pixels)
    assert image_size(path) == (37, 50)
    with open(path, "rb") as stream:
        data = stream.read()
    for cut in {2, 20, len(data) // 2, len(data) - 30} - (
        {len(data) // 2, len(data) - 30} if suffix == ".tiff" else set()
    ):
        with open(path, "wb") as stream:
            stream.write(data[:cut])
        with pytest.raises(FormatError):
            load_image(path, (1, 3, 37, 50), Transform(), LIMIT)


def test_a_truncated_progressive_jpeg_is_refused(tmp_path):
    cv2 = pytest.importorskip("cv2")
    pixels = np.random.RandomState(0).randint(0, 256, (37, 50, 3)).astype(np.uint8)
    path = str(tmp_path / "i.jpg")
    cv2.imwrite(path, pixels, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1, cv2.IMWRITE_JPEG_RST_INTERVAL, 2])
    with open(path, "rb") as stream:
        data = stream.read()
    assert image_size(path) == (37, 50)
    for cut in range(0, len(data), 7):
        with open(path, "wb") as stream:
            stream.write(data[:cut])
        with pytest.raises(FormatError):
            image_size(path)


def test_small_files_that_claim_huge_pictures_are_refused(tmp_path):
    path = str(tmp_path / "bomb.png")
    with open(path, "wb") as stream:
        stream.write(png(30000, 30000, zlib.compress(b"")))
    with pytest.raises(FormatError, match="whose 8 bytes of data cannot hold them"):
        load_image(path, (1, 3, 4, 4), Transform(), LIMIT)
    with open(path, "wb") as stream:
        stream.write(png(60000, 60000, bytes(60000 * 60000 * 3 // 1000)))
    with pytest.raises(
        InputError, match="a picture of 60000 x 60000 pixels needs 10.1 GiB in memory"
    ):
        load_image(path, (1, 3, 4, 4), Transform(), LIMIT)
    with open(path, "wb") as stream:
        stream.write(png(0, 5))
    with pytest.raises(FormatError, match="0 x 5 pixels"):
        load_image(path, (1, 3, 4, 4), Transform(), LIMIT)


def test_missing_and_repeated_inputs_are_refused(tmp_path):
    inputs = net_inputs(Net(Document(NET), State()))
    with pytest.raises(UsageError, match=r"no file for the net's input a \[1\], b \[2, 2\]"):
        plan_batches(["data=x.npy"], inputs, False)
    with pytest.raises(UsageError, match="twice"):
        plan_batches(["data=x.npy", "data=y.npy"], inputs, True)
    for name, count in (("p", 2), ("q", 3)):
        (tmp_path / name).mkdir()
        for number in range(count):
            (tmp_path / name / ("%d.npy" % number)).write_bytes(b"")
    with pytest.raises(InputError, match="different numbers"):
        plan_batches(["data=%s/p" % tmp_path, "a=%s/q" % tmp_path], inputs, True)
    batches = plan_batches(["data=%s/p" % tmp_path, "a=one.npy"], inputs, True)
    assert [
        (batch.number, batch.items["data"].path[-5:], batch.items["a"].path) for batch in batches
    ] == [
        (0, "0.npy", "one.npy"),
        (1, "1.npy", "one.npy"),
    ]


def test_random_inputs_depend_on_seed_and_batch_only():
    x = NetInput("x", (2, 3), 0, 0)
    got = random_input(5, x, 0)
    np.testing.assert_allclose(
        got, np.random.RandomState([5, 0]).standard_normal((2, 3)).astype(np.float32)
    )
    assert not np.array_equal(got, random_input(5, x, 1))
    assert not np.array_equal(got, random_input(6, x, 0))
    with pytest.raises(UsageError, match="no shape"):
        random_input(5, NetInput("x", (), 0, 0), 0)


def test_images_are_scaled_cropped_and_shifted_as_caffe_does(tmp_path):
    cv2 = pytest.importorskip("cv2")
    pixels = np.random.RandomState(0).randint(0, 256, (4, 5, 3)).astype(np.uint8)
    cv2.imwrite(str(tmp_path / "i.png"), pixels)
    planes = pixels.transpose(2, 0, 1)[np.newaxis].astype(np.float64)
    mean = np.array([1, 2, 3], np.float32)
    shape = (2, 3, 4, 5)
    path = str(tmp_path / "i.png")
    np.testing.assert_array_equal(load_image(path, shape, Transform(), LIMIT), planes)
    got = load_image(path, shape, Transform(mean, 0.25), LIMIT)
    np.testing.assert_allclose(got, (planes - mean.reshape(1, 3, 1, 1)) * 0.25)
    got = load_image(path, shape, Transform(mean, 1, "RGB"), LIMIT)
    np.testing.assert_allclose(got, planes[:, ::-1] - mean.reshape(1, 3, 1, 1))
    np.testing.assert_array_equal(
        load_image(path, (1, 3, 2, 2), Transform(crop=2), LIMIT), planes[:, :, 1:3, 1:3]
    )
    full = np.random.RandomState(1).rand(3, 6, 7).astype(np.float32)
    np.testing.assert_allclose(
        load_image(path, shape, Transform(full), LIMIT),
        planes - full[np.newaxis, :, 1:5, 1:6],
        rtol=1e-6,
    )
    grey = cv2.imread(path, cv2.IMREAD_GRAYSCALE)
    np.testing.assert_array_equal(load_image(path, (1, 1, 4, 5), Transform(), LIMIT)[0, 0], grey)
    bigger = load_image(path, (1, 3, 8, 10), Transform(), LIMIT)
    assert bigger.shape == (1, 3, 8, 10)
    reference = cv2.resize(pixels, (10, 8), interpolation=cv2.INTER_LINEAR).transpose(2, 0, 1)
    assert np.abs(bigger[0] - reference).max() <= 1
    with pytest.raises(InputError, match="cannot fill"):
        load_image(path, (1, 4, 4, 5), Transform(), LIMIT)
    with pytest.raises(InputError, match="does not fit"):
        load_image(path, shape, Transform(np.zeros(4, np.float32)), LIMIT)


def test_options_override_the_transform_param_of_the_net(tmp_path, binaryproto):
    net = Net(Document(NET), State())
    told = transform_from(transform_of(net, "data"), str(tmp_path))
    assert (list(told.mean), told.scale, told.crop, told.channel_order) == (
        [10, 20, 30],
        0.5,
        6,
        "BGR",
    )
    assert transform_of(net, "a") is None
    changed = with_options(told, "1,2,3", 2.0, "rgb")
    assert (list(changed.mean), changed.scale, changed.crop, changed.channel_order) == (
        [1, 2, 3],
        2.0,
        6,
        "RGB",
    )
    mean = np.random.RandomState(0).rand(3, 4, 5).astype(np.float32)
    path = binaryproto(tmp_path / "mean.binaryproto", mean)
    np.save(str(tmp_path / "mean.npy"), mean)
    for name in (path, str(tmp_path / "mean.npy")):
        np.testing.assert_array_equal(with_options(told, name, None, None).mean, mean)
    text = (
        'layer { name: "d" type: "Data" top: "data" transform_param { mean_file: '
        '"mean.binaryproto" } }'
    )
    told = transform_from(transform_of(Net(Document(text), State()), "data"), str(tmp_path))
    np.testing.assert_array_equal(told.mean, mean)
    with pytest.raises(UsageError, match="neither numbers nor a file"):
        with_options(told, "no such", None, None)
    (tmp_path / "bad.binaryproto").write_bytes(b"\x00garbage")
    with pytest.raises(FormatError):
        with_options(told, str(tmp_path / "bad.binaryproto"), None, None)
