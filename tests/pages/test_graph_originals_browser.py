"""The page of an original model, and of an om with its original beside it."""

from __future__ import annotations

import json

import onnx_models
import onnx_networks
import pytest
from browser import element, show
from graph_page import OPS, ORIGINAL, mark_op, shell_words_of
from in_process import run_here

from goldwatch.reports.pages.graph_page import Commands, graph_page
from goldwatch.reports.pages.graph_result import GraphResult
from goldwatch.reports.pages.read_page_model import read_page_model
from goldwatch.store.store import RunStore

pytestmark = pytest.mark.browser


def test_a_caffe_net_shows_shapes_and_its_submodel_command_runs(driver, folder, tmp_path):
    show(driver, folder / "net.prototxt.html")
    labels = [each.text for each in driver.find_elements("css selector", "#graph text.label")]
    assert sorted(labels) == ["1,3,8,8 NCHW", *["1,4,3,3 NCHW"] * 2, *["1,4,6,6 NCHW"] * 3]
    mark_op(driver, "p1", "start")
    mark_op(driver, "e1", "end")
    words = shell_words_of(element(driver, "#command").text)
    assert words[3:] == [
        "--start",
        "p1",
        "--end",
        "e1",
        "--shape",
        "c1=1,4,6,6",
        "--shape",
        "q1=1,4,3,3",
        "-o",
        "cuts",
    ]
    assert not driver.find_elements("css selector", "#no-command")
    done = run_here(words, tmp_path)
    assert done.returncode == 0, done.stderr
    config = shell_words_of(element(driver, "#config-command").text)
    # The om has to be named; its layers are found by their names before fusion.
    assert config[:7] == ["goldwatch", "config", "new", "--om", "OM.json", "--layers", "p1"]
    assert config[-4:] == ["--dump-path", ".", "--mode", "all"] and "e1" in config
    told = element(driver, "#om-json").text
    assert "OM.json stands for the json of the om: atc --mode=1" in told


def test_an_onnx_command_says_which_shapes_to_fill_in_and_then_runs(driver, tmp_path):
    onnx_models.save(tmp_path / "net.onnx", onnx_networks.cnn())
    assert run_here(["goldwatch", "graph", "net.onnx", "-o", "page.html"], tmp_path).returncode == 0
    show(driver, tmp_path / "page.html")
    mark_op(driver, "/relu/Relu", "start")
    mark_op(driver, "/Add", "end")
    words = shell_words_of(element(driver, "#command").text)
    assert words[3:] == [
        "--start",
        "/relu/Relu",
        "--end",
        "/Add",
        "--shape",
        "n1=?,?,?,?",
        "-o",
        "cuts",
    ]
    assert "the file does not tell the shape of n1." in element(driver, "#to-fill-in").text
    done = run_here([word.replace("?,?,?,?", "1,16,16,16") for word in words], tmp_path)
    assert done.returncode == 0, done.stderr
    mark_op(driver, "x", "start")
    assert "x=?,3,16,16" in shell_words_of(
        element(driver, "#command").text
    ), "a dim that the model leaves open"

    found = read_page_model(str(tmp_path / "net.onnx"))
    result = GraphResult(
        {}, {}, {}, {("/bn/BatchNormalization", 0): (1, 16, 16, 16)}, {}, set(), set()
    )
    (tmp_path / "told.html").write_text(
        graph_page(found, Commands([["goldwatch"], []], "", None, False), result)
    )
    show(driver, tmp_path / "told.html")
    mark_op(driver, "/relu/Relu", "start")
    mark_op(driver, "/Add", "end")
    assert (
        shell_words_of(element(driver, "#command").text)[-1] == "n1=1,16,16,16"
    ), "a result's rows tell the shape"
    assert not driver.find_elements("css selector", "#to-fill-in")


def test_the_command_repeats_the_options_of_the_compared_run(driver, folder, tmp_path):
    for name in ("dump", "golden"):
        (tmp_path / name).mkdir()
    model = str(folder / "om.json")
    with RunStore.begin(
        str(tmp_path / "out"),
        {"target": str(tmp_path / "dump"), "golden": str(tmp_path / "golden"), "model": model},
    ):
        pass
    command = [
        "goldwatch",
        "graph",
        folder / "net.prototxt",
        "--result",
        tmp_path / "out",
        "-o",
        tmp_path / "page.html",
    ]
    done = run_here(command, tmp_path)
    assert done.returncode == 0, done.stderr
    show(driver, tmp_path / "page.html")
    mark_op(driver, "p1", "start")
    mark_op(driver, "e1", "end")
    words = shell_words_of(element(driver, "#command").text)
    given = {"--om": model, "--dump": str(tmp_path / "dump"), "--golden": str(tmp_path / "golden")}
    assert {option: words[words.index(option) + 1] for option in given} == given


def test_the_page_of_an_om_cuts_the_original_beside_it(driver, folder, tmp_path):
    (tmp_path / "own.prototxt").write_text(ORIGINAL)
    command = [
        "goldwatch",
        "graph",
        "om.json",
        "--model",
        tmp_path / "own.prototxt",
        "-o",
        tmp_path / "both.html",
    ]
    done = run_here(command, folder)
    assert done.returncode == 0, done.stderr
    show(driver, tmp_path / "both.html")
    mark_op(driver, "conv1", "start")
    mark_op(driver, "add", "end")
    words = shell_words_of(element(driver, "#command").text)
    assert words[3:7] == ["--start", "conv1", "--end", "relu2"] and words[
        words.index("--om") + 1
    ] == str(folder / "om.json")
    assert element(driver, "#config-command").text.startswith("goldwatch config new")
    mark_op(driver, "conv10", "end")
    assert (
        "conv10 cannot be the end of a cut: conv10 is not one node of the original"
        in element(driver, "#no-command").text
    )
    assert element(driver, "#command").text.startswith("goldwatch config new")
    mark_op(driver, "trans", "start")
    assert (
        "trans cannot be the start of a cut: the compiler made this op"
        in element(driver, "#no-command").text
    )


def test_an_unreadable_original_beside_an_om_is_reported_on_the_page(driver, tmp_path):
    (tmp_path / "m.json").write_text(json.dumps({"name": "m", "graph": [{"name": "m", "op": OPS}]}))
    (tmp_path / "m.prototxt").write_text("layer {")
    done = run_here(["goldwatch", "graph", "m.json", "-o", "m.html"], tmp_path)
    assert done.returncode == 0, done.stderr
    show(driver, tmp_path / "m.html")
    mark_op(driver, "conv1", "start")
    mark_op(driver, "add", "end")
    assert "m.prototxt" in element(driver, "#no-command").text
    assert (
        run_here(
            ["goldwatch", "graph", "m.json", "--model", "m.prototxt", "-o", "n.html"], tmp_path
        ).returncode
        == 4
    )
