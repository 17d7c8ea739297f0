"""Start and end proposed from a result, the ladder around them, and the search for the smallest
failing cut.
"""

from __future__ import annotations

import json
import os
import sys

import pytest
from in_process import run_here

from goldwatch.base.errors import FormatError, InputError
from goldwatch.recomputing.submodel.cut_proposals import Searcher, read_outcome
from goldwatch.recomputing.submodel.export_plan import SubmodelOptions, open_sources

DATA = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "caffe", "resblock"
)
NET, WEIGHTS = os.path.join(DATA, "resblock.prototxt"), os.path.join(DATA, "resblock.caffemodel")


def result(folder, op, verdict="fail", inputs="good", replay=False, of=()):
    """Write a result.json with what the search reads of it, one that compares the nodes ``of``, and
    return its folder.
    """
    first = (
        None
        if op is None
        else {
            "op": op,
            "tensor": op + ":output:0",
            "metric": "m",
            "value": 1,
            "limit": 0,
            "inputs": inputs,
        }
    )
    summary = {
        "verdict": verdict,
        "first_divergence": first,
        "culprits": [first] if replay and first else [],
    }
    rows = [
        {"verdict": "pass", "golden": ",".join(of)},
        {"verdict": "expected_absent", "golden": "w"},
        {"verdict": "pass", "golden": "*"},
    ]
    document = dict(
        {"summary": summary, "rows": rows[0 if of else 1 :]},
        **({"comparison": "replay"} if replay else {}),
    )
    folder.mkdir(exist_ok=True)
    (folder / "result.json").write_text(json.dumps(document))
    return folder


def layers(document):
    return [layer["name"] for layer in document["layers"]]


def test_places_where_a_single_value_is_alive_are_found():
    searcher = Searcher(open_sources(SubmodelOptions(NET)))
    assert len(searcher.single_values()) == 12


@pytest.mark.parametrize(
    ("about", "start", "end", "reason"),
    [
        ({"inputs": "good"}, ["res2a_branch2b"], ["scale2a_branch2b"], "is the first divergence"),
        (
            {"inputs": "unknown"},
            ["res2a_branch2a"],
            ["scale2a_branch2b"],
            "its inputs were not compared",
        ),
        ({"replay": True}, ["res2a_branch2b"], ["scale2a_branch2b"], "has an error of its own"),
    ],
)
def test_a_cut_is_proposed_around_the_op_that_a_result_names(
    exported, device_options, tmp_path, about, start, end, reason
):
    out = result(tmp_path / "o", "res2a_branch2b", **about)
    _, document = exported("--from-result", out, *device_options)
    assert (document["start"], document["end"]) == (start, end) and reason in document["search"][
        "reason"
    ]
    assert document["spanning_ops"] == []


def test_a_cut_around_an_inserted_op_includes_its_neighbours(exported, device_options, tmp_path):
    _, document = exported(
        "--from-result", result(tmp_path / "o", "trans_TransData_1"), *device_options
    )
    assert [layer["name"] for layer in document["layers"]] == [
        "data",
        "conv1",
        "bn_conv1",
        "scale_conv1",
        "conv1_relu",
    ]


def test_the_ladder_grows_to_the_next_single_values(cut, device_options, tmp_path):
    done = cut(
        "--from-result", result(tmp_path / "o", "res2a_branch2b"), "--ladder", *device_options
    )
    folders = done.stdout.split()
    assert folders == sorted(folders) and len(folders) == 3
    documents = []
    for folder in folders:
        with open(os.path.join(folder, "submodel.json"), encoding="utf-8") as stream:
            documents.append(json.load(stream))
    sizes = [len(document["layers"]) for document in documents]
    assert sizes == sorted(set(sizes)) and sizes[0] == 3
    assert (documents[2]["end"], [entry["tensor"] for entry in documents[2]["inputs"]]) == (
        ["res2a_relu"],
        ["pool1"],
    )
    printed = json.loads(
        cut(
            "--start",
            "gap",
            "--end",
            "gap",
            "--ladder",
            *device_options,
            "--dry-run",
            "--format",
            "json",
            out=False,
        ).stdout
    )
    assert [entry["folder"] for entry in printed["ladder"]] == [None] * len(printed["ladder"])


def run_on_device(folder, document, fault):
    """Run an exported cut on the stand-in for a device, one op of it wrong, and compare: what a
    user does at each step.
    """
    feeds = ["%s=%s" % (entry["tensor"], entry["npy"]) for entry in document["inputs"]]
    words = [word for feed in feeds for word in ("-i", feed)]
    inside = [op for layer in document["layers"] for op in layer["ops"]]
    faults = ["--op-fault", fault] if fault.split("=")[0] in inside else []
    for command in (
        [
            sys.executable,
            "-m",
            "goldwatch.testing",
            "caffe",
            "dump.prototxt",
            "dump.caffemodel",
            "device",
            *words,
            *faults,
        ],
        document["next"]["golden"] + ["--backend", "numpy"],
    ):
        done = run_here(command, folder)
        assert done.returncode == 0, done.stderr
    done = run_here(
        [
            "goldwatch",
            "compare",
            "device/dump",
            "golden_of_submodel",
            "-f",
            "device/model.json",
            "-o",
            "compared",
        ],
        folder,
    )
    assert done.returncode in (0, 1, 3), done.stderr
    return os.path.join(folder, "compared")


@pytest.mark.parametrize("op", ["res2a_branch2b", "conv1conv1_relu", "fc"])
def test_the_search_ends_at_the_wrong_op(exported, cut, device_options, op):
    folder, document = exported("--start", "data", "--end", "prob", "--whole-ops", *device_options)
    sizes = [len(document["layers"])]
    while True:
        compared = run_on_device(folder, document, op + "=scale:1.3")
        done = cut("--narrow", folder, "--result", compared, *device_options)
        if "smallest" in done.stdout:
            break
        folder = done.stdout.strip()
        with open(os.path.join(folder, "submodel.json"), encoding="utf-8") as stream:
            document = json.load(stream)
        sizes.append(len(document["layers"]))
        assert len(sizes) < 8
    assert done.stdout.startswith("this is the smallest cut that fails (")
    assert all(layer["ops"] == [op] for layer in document["layers"] if layer["type"] != "Input")


def test_halves_are_tried_in_turn_and_a_fault_of_both_together_is_reported(
    exported, cut, device_options, tmp_path
):
    folder, document = exported("--start", "data", "--end", "prob", "--whole-ops", *device_options)
    failed, passed = result(tmp_path / "bad", "somewhere", of=layers(document)), tmp_path / "good"
    folder, document = exported("--narrow", folder, "--result", failed, *device_options)
    assert document["start"] == ["data"] and "its first half, up to" in document["search"]["reason"]
    (rest,) = document["search"]["left"]
    result(passed, None, "pass", of=layers(document))
    folder, document = exported("--narrow", folder, "--result", passed, *device_options)
    assert (document["start"], document["end"]) == (rest["start"], rest["end"])
    result(passed, None, "pass", of=layers(document))
    done = cut("--narrow", folder, "--result", passed, *device_options, "--format", "json")
    ended = json.loads(done.stdout)
    assert (
        ended["folder"] is None
        and ended["search"]["ended"]
        and "together they fail" in ended["search"]["reason"]
    )
    assert (ended["search"]["start"], ended["search"]["end"]) == (["data"], ["prob"])


def test_a_cut_that_passes_alone_grows(exported, device_options, tmp_path):
    folder, document = exported("--start", "gap", "--end", "gap", *device_options)
    _, document = exported(
        "--narrow",
        folder,
        "--result",
        result(tmp_path / "good", None, "pass", of=["gap"]),
        *device_options,
    )
    assert "passes alone" in document["search"]["reason"] and len(document["layers"]) > 1


def test_a_passing_cut_of_the_whole_model_cannot_grow(exported, cut, device_options, tmp_path):
    folder, document = exported("--start", "conv1", "--end", "prob", *device_options)
    done = cut(
        "--narrow",
        folder,
        "--result",
        result(tmp_path / "good", None, "pass", of=layers(document)),
        *device_options,
    )
    assert done.stdout.startswith(
        "the cut passes, and there is no larger one around it (conv1 … prob)"
    )


@pytest.mark.parametrize(
    ("verdict", "of", "text"),
    [
        ("fail", ["gap", "fc"], "it compares fc, no layer of it"),
        ("pass", ["gap", "c2", "e"], "it compares c2, e, no layer of it"),
        ("pass", ["a", "b", "c", "d", "e"], "it compares a, b, c, d …, no layer of it"),
        ("pass", [], "it compares none of its layers"),
    ],
)
def test_the_result_of_another_run_is_refused(
    exported, cut, device_options, tmp_path, verdict, of, text
):
    folder, _ = exported("--start", "gap", "--end", "gap", *device_options)
    done = cut(
        "--narrow",
        folder,
        "--result",
        result(tmp_path / "o", "gap", verdict, of=of),
        *device_options,
        code=4,
    )
    assert "not of the run of the previous export: " + text in done.stderr


def test_a_result_that_cannot_be_searched_is_refused_with_the_reason(
    cut, exported, device_options, tmp_path
):
    nothing = result(tmp_path / "o", None, "pass")
    assert (
        "nothing is outside its limits"
        in cut("--from-result", nothing, *device_options, code=4).stderr
    )
    own = result(tmp_path / "r", None, "pass", replay=True)
    assert (
        "no operator has an error of its own"
        in cut("--from-result", own, *device_options, code=4).stderr
    )
    gone = result(tmp_path / "g", "nobody")
    assert (
        "op nobody computes no known layer"
        in cut("--from-result", gone, *device_options, code=4).stderr
    )
    assert "give the om json" in cut("--from-result", gone, code=4).stderr
    assert "no result.json there" in cut("--from-result", tmp_path, *device_options, code=4).stderr
    assert (
        "exclude one another"
        in cut("--from-result", gone, "--start", "pool1", *device_options, code=2).stderr
    )
    assert "belong together" in cut("--narrow", "x", *device_options, code=2).stderr
    assert (
        "no submodel.json there"
        in cut("--narrow", tmp_path, "--result", nothing, *device_options, code=4).stderr
    )
    folder, _ = exported("--start", "gap", "--end", "gap", *device_options)
    unclear = result(tmp_path / "i", None, "incomplete")
    assert (
        "comparison is incomplete"
        in cut("--narrow", folder, "--result", unclear, *device_options, code=4).stderr
    )


BROKEN = [
    "",
    "[]",
    "{}",
    '{"summary": 1}',
    '{"summary": {"verdict": "fail", "first_divergence": 3}}',
    "[" * 100000,
]


@pytest.mark.parametrize("text", BROKEN)
def test_a_file_that_is_no_result_is_refused(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(FormatError, match="not the result of a comparison"):
        read_outcome(str(tmp_path))
    with pytest.raises(InputError):
        read_outcome(str(tmp_path / "gone"))
