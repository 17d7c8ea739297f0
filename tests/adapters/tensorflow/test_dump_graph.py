"""Frozen graphs and SavedModels, without any script."""

from __future__ import annotations

import json
import os
import re
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow

MAKER = """
import sys
import numpy as np
import tensorflow as tf

folder = sys.argv[1]
x = tf.placeholder(tf.float32, [None, 4], name="scope/input")
flag = tf.placeholder_with_default(True, [], name="flag")
weights = tf.get_variable("weights", [4, 3], initializer=tf.random_normal_initializer(seed=1))
logits = tf.matmul(x, weights, name="fc.1")
prob = tf.nn.softmax(logits, name="prob")
other = tf.reduce_max(logits, name="other")
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    value = np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4)
    np.savez(folder + "/own.npz", prob=session.run(prob, {x: value}), other=session.run(other, {x: value}), w=session.run(weights))
    tf.saved_model.simple_save(session, folder + "/saved", {"image": x}, {"answer": prob})
    builder = tf.saved_model.builder.SavedModelBuilder(folder + "/two")
    build = tf.saved_model.signature_def_utils.predict_signature_def
    builder.add_meta_graph_and_variables(session, ["mine"], {"a": build({"i": x}, {"o": prob}), "b": build({"i": x}, {"o": other})})
    builder.save()
    frozen = tf.graph_util.convert_variables_to_constants(session, session.graph_def, ["prob", "other", "flag"])
    open(folder + "/raw.pb", "wb").write(session.graph_def.SerializeToString())
open(folder + "/frozen.pb", "wb").write(frozen.SerializeToString())
open(folder + "/frozen.pbtxt", "w").write(str(frozen))
npu = tf.GraphDef()
npu.CopyFrom(frozen)
npu.node.add(name="npu", op="NpuOnlyOp")
open(folder + "/npu.pb", "wb").write(npu.SerializeToString())
np.save(folder + "/x.npy", value)
np.save(folder + "/x64.npy", value.astype(np.float64))
np.save(folder + "/int.npy", np.ones((2, 4), np.complex64))
np.save(folder + "/bad.npy", np.ones((2, 5), np.float32))
np.save(folder + "/text.npy", np.array(["1", "\\u00e4"]))
with tf.Graph().as_default() as words:
    text = tf.placeholder(tf.string, [2], name="text")
    tf.strings.length(text, name="length")
    open(folder + "/words.pb", "wb").write(words.as_graph_def().SerializeToString())
np.save(folder + "/pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
open(folder + "/broken.npy", "wb").write(b"\\x93NUMPY\\x01\\x00\\x10\\x00{'descr': (((((\\n")
value.tofile(folder + "/x.bin")
value[:1, :3].tofile(folder + "/odd.bin")
"""  # noqa: E501


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with the models and inputs."""
    import subprocess

    folder = tmp_path_factory.mktemp("models")
    (folder / "make.py").write_text(MAKER)
    subprocess.run(
        [sys.executable, str(folder / "make.py"), str(folder)],
        check=True,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    return folder


def own(made, name):
    with np.load(str(made / "own.npz")) as stored:
        return stored[name]


@pytest.mark.parametrize("model", ["frozen.pb", "frozen.pbtxt"])
def test_every_sink_of_a_frozen_graph_is_computed_and_saved(tf, golden, made, model):
    done = tf(
        "dump", "-o", "g", "--pb", made / model, "--inputs", "scope/input=%s" % (made / "x.npy")
    )
    assert done.code == 0, done.err
    found = golden("g")
    told = {"path": str(made / model), "sha256": found.manifest["source"]["model"]}
    assert found.manifest["original"] == {"framework": "tensorflow", "model": told}
    assert (
        found.one("prob").tobytes() == own(made, "prob").tobytes()
        and found.one("other").tobytes() == own(made, "other").tobytes()
    )
    assert found.one("weights").tobytes() == own(made, "w").tobytes() and found.one(
        "fc.1"
    ).shape == (2, 3)
    assert found.one("scope/input").shape == (2, 4)
    assert set(found.manifest["source"]) == {"model", "input:scope/input"}


@pytest.mark.parametrize("file", ["x64.npy", "x.bin"])
def test_outputs_option_limits_what_is_saved(tf, golden, made, file):
    done = tf(
        "dump",
        "-o",
        "g",
        "--pb",
        made / "frozen.pb",
        "-i",
        "scope/input:0=%s" % (made / file),
        "--outputs",
        "prob:0",
    )
    assert done.code == 0, done.err
    found = golden("g")
    assert found.one("prob").tobytes() == own(made, "prob").tobytes() and "other" not in found.ops


def test_strings_are_fed_from_a_text_array(tf, golden, made):
    done = tf("dump", "-o", "g", "--pb", made / "words.pb", "-i", "text=%s" % (made / "text.npy"))
    assert done.code == 0, done.err
    assert (
        golden("g").one("length").tolist() == [1, 2]
        and "strings" in golden("g").reasons()["text:0"]
    )


def test_a_saved_model_runs_by_its_signature(tf, golden, made):
    image = "image=%s" % (made / "x.npy")
    done = tf(
        "dump",
        "-o",
        "g",
        "--saved-model",
        made / "saved",
        "--inputs",
        image,
        "--format",
        "json",
        "--twice",
    )
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["reproducible"] is True and document["same"] == document["golden"][0]["saved"]
    found = golden("g")
    assert found.one("prob").tobytes() == own(made, "prob").tobytes() and "other" not in found.ops
    assert "model" in found.manifest["source"] and any(
        key.startswith("variables/") for key in found.manifest["source"]
    )
    original, source = found.manifest["original"], found.manifest["source"]
    assert original["model"] == {
        "path": str(made / "saved" / "saved_model.pb"),
        "sha256": source["model"],
    }
    names = [key for key in source if key.startswith("variables/")]
    assert original["data"] == [
        {"path": str(made / "saved" / name), "sha256": source[name]} for name in names
    ]


def test_tags_and_signature_choose_the_graph_of_a_saved_model(tf, golden, made):
    image = "i=%s" % (made / "x.npy")
    assert (
        tf(
            "dump",
            "-o",
            "g",
            "--saved-model",
            made / "two",
            "-i",
            image,
            "--tags",
            "mine",
            "--signature",
            "b",
        ).code
        == 0
    )
    assert golden("g").ops.issuperset(["other", "fc.1"])


def job(made, model, inputs, **options):
    """Return the job that the command line would hand to the Python that has TensorFlow."""
    path = str(made / model)
    kind = "saved_model" if os.path.isdir(path) else "pb"
    pairs = [list(pair) for pair in ((name, str(made / file)) for name, file in inputs)]
    document = {
        "model": kind,
        "path": path,
        "tags": ["serve"],
        "signature": None,
        "inputs": pairs,
        "outputs": [],
        "force": False,
    }
    document.update({"source": {}, "extra": {}}, **options)
    return document


@pytest.mark.parametrize(
    "model, inputs, options, text",
    [
        ("frozen.pb", [], {}, "inputs are missing: scope/input"),
        ("frozen.pb", [("inptu", "x.npy")], {}, "scope/input"),
        ("frozen.pb", [("scope/input", "bad.npy")], {}, r"shape \[2, 5\]"),
        ("frozen.pb", [("scope/input", "int.npy")], {}, "complex64"),
        (
            "frozen.pb",
            [("scope/input", "pickled.npy")],
            {},
            "pickles are never loaded.*array of numbers, str or bytes",
        ),
        (
            "frozen.pb",
            [("scope/input", "broken.npy")],
            {},
            "not an npy file of numbers: its header is damaged",
        ),
        ("frozen.pb", [("scope/input", "text.npy")], {}, "input:0 takes float32"),
        ("frozen.pb", [("scope/input", "odd.bin")], {}, "do not fit"),
        ("frozen.pb", [("scope/input", "x.npy")], {"outputs": ["nothing"]}, "no output nothing"),
        ("raw.pb", [("scope/input", "x.npy")], {}, "frozen"),
        ("npu.pb", [("scope/input", "x.npy")], {}, "before npu_bridge"),
        ("saved/saved_model.pb", [], {}, "`saved_model`"),
        ("x.npy", [], {}, "not a GraphDef"),
        ("saved", [("image", "x.npy")], {"signature": "none"}, "serving_default"),
        ("two", [("i", "x.npy")], {}, "`tags"),
        ("two", [("i", "x.npy")], {"tags": ["mine"]}, "signatures a, b"),
    ],
)
def test_a_graph_that_cannot_be_run_is_refused_with_the_reason(
    made, tmp_path, monkeypatch, model, inputs, options, text
):
    from goldwatch.adapters.tensorflow.child import StateSender
    from goldwatch.adapters.tensorflow.dump_graph import dump_graph
    from goldwatch.base.errors import InputError

    # The saver of a graph that is not frozen would write its checkpoint "model" here.
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        dump_graph(
            job(made, model, inputs, **dict(options, out=str(tmp_path / "g"))),
            StateSender(None, str(tmp_path)),
        )
    assert re.search(text, "%s %s" % (caught.value.message, caught.value.hint))
    assert not [name for name in os.listdir(str(tmp_path)) if not name.startswith("tfdbg-")]


def test_neither_the_saver_nor_initialisers_of_a_graph_are_run(tf, golden, made, tmp_path):
    """A graph that is not frozen: its saver must not write a checkpoint into the current folder,
    nor anything be initialised.
    """
    text = (
        "import tensorflow as tf\nx = tf.placeholder(tf.float32, [2, 4], name='x')\ny = "
        "tf.multiply(x, 2.0, name='y')\n"
    )
    text += (
        "v = tf.get_variable('v', "
        "initializer=tf.zeros([2]))\ntf.train.Saver()\ntf.global_variables_initializer()\n"
    )
    text += (
        "open('whole.pb', 'wb').write(tf.get_default_graph().as_graph_def().SerializeToString())\n"
    )
    (tmp_path / "make.py").write_text(text)
    assert tf("dump", "-o", "none", "--", "python", "make.py").code == 4
    done = tf(
        "dump", "-o", "g", "--pb", "whole.pb", "-i", "x=%s" % (made / "x.npy"), "--outputs", "y"
    )
    assert done.code == 0 and golden("g").ops == {"x", "y", "y/y"}, done.err
    done = tf("dump", "-o", "all", "--pb", "whole.pb", "-i", "x=%s" % (made / "x.npy"))
    assert done.code == 4 and "uninitialized value v" in done.err
    assert sorted(os.listdir(str(tmp_path))) == ["g", "make.py", "whole.pb"]


def test_a_model_that_cannot_be_run_exits_with_4(tf, made, tmp_path):
    done = tf("dump", "-o", "g", "--pb", made / "frozen.pb", "--format", "json")
    assert done.code == 4 and "inputs are missing" in done.json()["error"]["message"]
    assert "Traceback" not in done.err and not os.path.exists(str(tmp_path / "g"))
    assert tf("dump", "-o", "g", "--pb", made / "frozen.pb", "-i", "scope/input=none.npy").code == 4
