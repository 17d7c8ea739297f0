"""A dump tree of several models: each is compared with its own golden data and its own json."""

from __future__ import annotations

import json
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from in_process import run_here
from locate_host import small
from onnx_device import on_device, write_model

from goldwatch.base.safe_reading import sha256_of_file
from goldwatch.dumps.place import Place
from goldwatch.run.golden_files import Goldens
from goldwatch.testing.device_dump import write_files


@pytest.fixture(scope="module")
def made_models(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(("image", "text")):
        small(tmp_path / "net.onnx", scale=seed + 1.0)
        feeds = {"x": np.random.RandomState(seed).standard_normal((2, 32)).astype(np.float32)}
        np.save(str(tmp_path / "x.npy"), feeds["x"])
        device = on_device(str(tmp_path / "net.onnx"), feeds)
        write_files(str(tmp_path / "made"), device.dumps())
        (tmp_path / "js").mkdir(exist_ok=True)
        write_model(device, str(tmp_path / "js" / (name + ".json")), "")
        for base, folders, _ in os.walk(str(tmp_path / "made")):
            if "net" in folders:
                there = tmp_path / "dump" / "20260102030405" / "0"
                there.mkdir(parents=True, exist_ok=True)
                shutil.move(os.path.join(base, "net"), str(there / name))
                break
        shutil.rmtree(str(tmp_path / "made"))
        words = ["golden", "onnx", "dump", "net.onnx", "-i", "x=x.npy", "-o", "golden/" + name]
        done = run_here(["goldwatch", *words], tmp_path)
        assert done.returncode == 0, done.stderr
    return tmp_path


@pytest.fixture
def models(made_models, tmp_path):
    """Dumps of the models ``image`` and ``text``, whose ops have the same names, json and golden
    data of each below a folder of its name.
    """
    shutil.copytree(str(made_models), str(tmp_path / "models"))
    return tmp_path / "models"


def compared(folder, *words):
    done = run_here(["goldwatch", "compare", "dump", *words, "-o", "out"], folder)
    return done.returncode, done.stdout + done.stderr


def test_each_model_is_compared_with_the_golden_folder_of_its_name(models):
    code, text = compared(models, "golden", "-f", "js")
    assert code == 0 and "0 fail" in text and "taken together" not in text, text


def test_golden_data_of_several_runs_are_not_merged_without_a_word(models):
    (models / "golden" / "image").rename(models / "golden" / "picture")
    code, text = compared(models, "golden", "-f", "js")
    assert "GOLDEN has no golden data of TARGET's model image: those in text are of another" in text
    assert code == 3 and "suspect" not in text
    (models / "golden" / "text").rename(models / "golden" / "words")
    code, text = compared(models, "golden", "-f", "js", "--force")
    assert code in (3, 4) and "confidence" not in text
    assert "GOLDEN holds golden data of several runs" in text
    assert "(picture, words), and none has the name of TARGET's model image, text" in text


def without_manifests(models):
    for name in ("image", "text"):
        os.remove(str(models / "golden" / name / "manifest.json"))


@pytest.mark.parametrize("model", ["js", "js/image.json"])
def test_a_folder_of_a_models_name_is_its_own_without_a_manifest(models, model):
    without_manifests(models)
    code, text = compared(models, "golden", "-f", model)
    assert code == 0 and " 0 fail" in text and "other values" not in text, text


def test_other_values_in_folders_of_other_names_are_compared_with_none(models):
    without_manifests(models)
    for name, other in (("image", "first"), ("text", "second")):
        (models / "golden" / name).rename(models / "golden" / other)
    code, text = compared(models, "golden", "-f", "js")
    assert code in (3, 4) and "confidence" not in text, text
    with open(str(models / "out" / "result.json")) as stream:
        rows = json.load(stream)["rows"]
    reasons = {row["reason"] for row in rows if row["verdict"] == "not_compared"}
    assert any("other values of it in each of first, second" in reason for reason in reasons)
    assert not [row for row in rows if row["verdict"] == "fail"]


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_golden_files_of_several_runs_in_one_folder_accuse_nobody_for_certain(models, factor):
    """The newest count, which may be of another input, or of weights since changed."""
    flat = models / "flat"
    flat.mkdir()
    for path in sorted((models / "golden" / "image").glob("*.npy")):
        op, index, stamp, _ = path.name.split(".")
        shutil.copy(str(path), str(flat / path.name))
        later = flat / ("%s.%s.%d.npy" % (op, index, int(stamp) + 10**9))
        np.save(str(later), np.load(str(path)) * np.float32(factor if op == "second" else 1))
    code, text = compared(models, "flat", "-f", "js/image.json")
    warned = "warning: GOLDEN holds golden files of several runs, for" in text
    assert warned == (factor != 1.0) and code == int(warned), text
    assert ("suspect 1: second" in text) == warned and "confidence high" not in text
    assert ("confidence low" in text) == warned
    assert ("the newest may be of another one" in text) == warned


def test_the_json_of_one_model_judges_that_model_alone(models):
    code, text = compared(models, "golden/image", "-f", "js/image.json")
    assert code == 0, text
    assert "left out model text" in text and "suspect" not in text


@pytest.mark.parametrize("layout", ["one folder", "the folder itself", "one below the other"])
def test_golden_data_named_as_one_model_of_the_run_are_of_no_other(models, layout):
    """Ops of both have the same names, and the device is right."""
    target, golden = "dump", "golden"
    if layout == "one folder":
        shutil.rmtree(str(models / "golden" / "text"))
    elif layout == "the folder itself":
        target, golden = "dump/20260102030405/0/text", "golden/image"
    else:
        (models / "golden" / "text").rename(models / "both")
        (models / "golden" / "image").rename(models / "both" / "image")
        golden = "both"
    done = run_here(["goldwatch", "compare", target, golden, "-f", "js", "-o", "out"], models)
    text = " ".join((done.stdout + done.stderr).split())
    assert "suspect" not in text and " 0 fail" in text, text
    missing = layout != "one below the other"
    codes = {"one folder": 3, "the folder itself": 4, "one below the other": 0}
    assert done.returncode == codes[layout], text
    told = "GOLDEN has no golden data of TARGET's model text: those in image are of another model"
    assert (told in text) == missing


def test_each_models_operators_are_computed_again_by_the_model_of_its_golden_folder(models):
    """And the model of a suspect is named."""
    for seed, name in enumerate(("image", "text")):
        path = models / (name + ".onnx")
        small(path, scale=seed + 1.0)
        manifest = models / "golden" / name / "manifest.json"
        document = json.loads(manifest.read_text())
        document["original"]["model"] = {"path": str(path), "sha256": sha256_of_file(str(path))}
        manifest.write_text(json.dumps(document))
    place = models / "dump" / "20260102030405" / "0" / "text"
    shutil.rmtree(str(place))
    wrong = ("second", lambda array: array * np.float32(1.5))
    device = on_device(
        str(models / "text.onnx"), {"x": np.load(str(models / "x.npy"))}, fault=wrong
    )
    write_files(str(models / "made"), device.dumps())
    (made,) = (models / "made").glob("*/*/*")
    shutil.move(str(made), str(place))
    code, text = compared(models, "golden", "-f", "js")
    assert code == 1 and ", 1 wrong" in text and "without the original model" not in text, text
    assert "suspect 1: second (MatMul) of model text, score 99" in text, text
    assert "in step 0 on device 0 of model text: " in text


def test_golden_data_serve_each_om_that_was_compiled_from_their_model(models):
    """The atc command of the json tells what it was compiled from: two builds of one model."""
    (models / "golden" / "image").rename(models / "image")
    shutil.rmtree(str(models / "golden"))
    manifest = models / "image" / "manifest.json"
    document = json.loads(manifest.read_text())
    document["original"]["model"]["path"] = "/nets/image.onnx"
    manifest.write_text(json.dumps(document))
    shutil.rmtree(str(models / "dump" / "20260102030405" / "0" / "text"))
    (models / "dump" / "20260102030405" / "0" / "image").rename(
        models / "dump" / "20260102030405" / "0" / "wide"
    )
    device = json.loads((models / "js" / "image.json").read_text())
    for name in ("image", "wide"):
        device["name"] = name
        for graph in device["graph"]:
            graph["name"] = name
        attributes = [one for one in device.get("attr", []) if one["key"] != "atc_cmdline"]
        value = {"key": "atc_cmdline", "value": {"s": "atc --model=nets/image.onnx --output=x"}}
        (models / "js" / (name + ".json")).write_text(
            json.dumps(dict(device, attr=[*attributes, value]))
        )
    code, text = compared(models, "image", "-f", "js")
    assert code == 0 and "are of another model" not in text, text


@pytest.mark.parametrize("file, golden", [("text", "text"), ("image_sim", "text"), ("a", "image")])
def test_that_an_om_was_compiled_from_another_file_than_golden_data_is_told_where_none_fits(
    models, file, golden
):
    """Another name alone is that of one model: where an operator with weights fits, it is its."""
    (dump,) = (models / "dump").glob("*/0/image/*/*/*second*")
    if golden == "image":
        first, second = (np.frombuffer(dump.read_bytes(), np.uint8).copy() for _ in range(2))
        second[-8:] ^= 0x40
        assert (first != second).any()
        dump.write_bytes(second.tobytes())
    manifest = models / "golden" / golden / "manifest.json"
    document = json.loads(manifest.read_text())
    document["original"]["model"]["path"] = "/nets/%s.onnx" % file
    manifest.write_text(json.dumps(document))
    device = json.loads((models / "js" / "image.json").read_text())
    device["attr"] = [{"key": "atc_cmdline", "value": {"s": "atc --model=a/image.onnx"}}]
    (models / "js" / "image.json").write_text(json.dumps(device))
    shutil.rmtree(str(models / "dump" / "20260102030405" / "0" / "text"))
    code, text = compared(models, "golden/" + golden, "-f", "js/image.json")
    told = "golden data were made of %s, and the om of image was compiled from image: if these"
    assert code == 1 and (told % file in " ".join(text.split())) == (golden == "text"), text
    assert ("with weights fits: golden data may be of another model." in text) == (golden == "text")
    assert ("confidence high" in text) == (golden == "image"), text


@pytest.mark.parametrize("made_of", ["image text", "net net"])
def test_golden_data_in_folders_of_other_names_are_of_the_model_in_the_manifest(models, made_of):
    """The device is right: golden data of the other model accuse none of its ops."""
    for name, folder, stem in zip(("image", "text"), ("one", "two"), made_of.split()):
        (models / "golden" / name).rename(models / "golden" / folder)
        manifest = models / "golden" / folder / "manifest.json"
        document = json.loads(manifest.read_text())
        document["original"]["model"]["path"] = "/nets/%s.onnx" % stem
        manifest.write_text(json.dumps(document))
    code, text = compared(models, "golden", "-f", "js")
    if made_of == "image text":
        assert code == 0 and " 0 fail" in text, text
    else:
        assert code in (3, 4) and "suspect" not in text and "confidence" not in text, text
        assert "GOLDEN holds golden data of several runs" in text
        reasons = (models / "out" / "result.json").read_text()
        assert "GOLDEN has other values of it in each of one, two" in reasons


def test_a_folder_whose_name_and_manifest_tell_two_models_is_of_neither(models):
    manifest = models / "golden" / "image" / "manifest.json"
    document = json.loads(manifest.read_text())
    document["original"]["model"]["path"] = "/nets/text.onnx"
    manifest.write_text(json.dumps(document))
    code, text = compared(models, "golden", "-f", "js")
    assert code == 3 and "suspect" not in text, text
    assert "GOLDEN has no golden data of TARGET's model image: those in image" in text


@pytest.mark.parametrize("stem", ["text", "net"])
def test_one_golden_folder_whose_manifest_names_one_models_file_is_of_no_other(models, stem):
    """The device is right; ops of both models have the same names and shapes."""
    (models / "golden" / "text").rename(models / "one")
    (models / "net.onnx").rename(models / ("text.onnx"))
    manifest = models / "one" / "manifest.json"
    document = json.loads(manifest.read_text())
    document["original"]["model"]["path"] = str(models / ("%s.onnx" % stem))
    manifest.write_text(json.dumps(document))
    code, text = compared(models, "one", "-f", "js")
    told = "GOLDEN has no golden data of TARGET's model image: those in one are of another model"
    if stem == "text":
        assert told in text and code == 3 and "suspect" not in text and " 0 fail" in text, text
    else:
        # Which model they are of is not known: as before, all are compared with them.
        assert told not in text and code == 1, text
    # Given with one model's json, they are that model's.
    code, text = compared(models, "one", "-f", "js/image.json", "--force")
    assert "GOLDEN has no golden data" not in text and code == 1, text


def test_pairs_are_planned_anew_when_a_manifest_tells_later_whose_golden_data_they_are(tmp_path):
    folder = tmp_path / "one"
    folder.mkdir()
    store = SimpleNamespace(put_file=lambda *values: None)
    names = {"image": "image", "text": "text"}
    graphs = SimpleNamespace(model_names=names, original_names={})
    goldens = Goldens(str(folder), "auto", store, str(tmp_path / "dump"), graphs)
    places = [Place(model="image"), Place(model="text")]
    np.save(str(folder / "a.0.1795990604254095.npy"), np.zeros(3, np.float32))
    assert goldens.look(str(folder / "a.0.1795990604254095.npy"))
    assert [len(goldens.of(place)) for place in places] == [1, 1] and not goldens.changed
    document = {"tensors": [], "original": {"model": {"path": "/nets/text.onnx"}}}
    (folder / "manifest.json").write_text(json.dumps(document))
    assert goldens.look(str(folder / "manifest.json")) and goldens.changed
    assert [len(goldens.of(place)) for place in places] == [0, 1]
