"""``config new`` on the command line: what it writes and refuses."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner
from in_process import run_here

from goldwatch.base.errors import GoldwatchError
from goldwatch.cli.config_new import new
from goldwatch.metrics.row import Row
from goldwatch.store.store import RunStore
from goldwatch.testing import Training, Wrong, as_statistics


def write(*words):
    """Run config new; return the exit code and the document, or the error."""
    result = CliRunner().invoke(new, [str(word) for word in words])
    if isinstance(result.exception, GoldwatchError):
        return result.exception.exit_code, result.exception
    if result.exit_code:
        return result.exit_code, result.output
    text = result.output
    return 0, json.loads(text[text.index("{\n") : text.rindex("}\n") + 2])


def dump(*words):
    code, document = write("-q", *words)
    assert code == 0, document
    return document["dump"]


def refused(code, *words):
    found, error = write(*words)
    assert found == code, error
    return error


def test_models_become_entries_with_or_without_layers(folder):
    found = dump(
        "--dump-path",
        folder,
        "--model",
        "m",
        "--model",
        "n:a,b:c",
        "--mode",
        "all",
        "--step",
        "0|5-9",
    )
    assert found == {
        "dump_list": [{"model_name": "m"}, {"model_name": "n", "layer": ["a", "b:c"]}],
        "dump_path": folder,
        "dump_mode": "all",
        "dump_step": "0|5-9",
    }


def test_op_switch_writes_a_single_operator_configuration(folder):
    assert dump("--dump-path", folder, "--op-switch", "on") == {
        "dump_list": [],
        "dump_path": folder,
        "dump_op_switch": "on",
    }


def test_config_new_says_that_everything_is_dumped(folder):
    result = CliRunner().invoke(new, ["--dump-path", folder])
    assert '"dump_list": [\n            {}\n        ]' in result.output
    code, _ = write("--dump-path", folder)
    assert code == 0
    process = run_here(["goldwatch", "config", "new", "--dump-path", folder])
    assert "everything is dumped" in process.stderr
    assert json.loads(process.stdout) == {"dump": {"dump_list": [{}], "dump_path": folder}}


@pytest.mark.parametrize(
    "words, expected",
    [
        (
            ["--data", "stats", "--stats", "Max,Negative Inf", "--stats", "L2norm"],
            {"dump_data": "stats", "dump_stats": ["Max", "Negative Inf", "L2norm"]},
        ),
        (["--level", "op"], {"dump_level": "op"}),
        (["--op-switch", "off"], {"dump_op_switch": "off"}),
        (["--kernel-data", "printf,assert"], {"dump_kernel_data": "printf,assert"}),
        (["--mode", "input"], {"dump_mode": "input"}),
    ],
)
def test_options_become_fields_of_the_configuration(folder, words, expected):
    assert dump("--dump-path", folder, "--model", "m", *words) == dict(
        dump_list=[{"model_name": "m"}], dump_path=folder, **expected
    )


def test_debug_exception_and_watcher_scenes_are_written(folder):
    assert dump("--dump-path", folder, "--debug") == {"dump_path": folder, "dump_debug": "on"}
    assert dump("--scene", "lite_exception") == {"dump_scene": "lite_exception"}
    found = dump(
        "--dump-path",
        folder,
        "--scene",
        "watcher",
        "--watch-node",
        "C",
        "--watch-node",
        "D",
        "--model",
        ":A,B",
    )
    assert found == {
        "dump_list": [{"layer": ["A", "B"], "watcher_nodes": ["C", "D"]}],
        "dump_path": folder,
        "dump_scene": "watcher",
    }


def test_skips_and_ranges_imply_the_op_level(folder):
    words = ["--skip-type", "Cast:input0,output1", "--skip-op", "a:b:output0", "--op-range", "x..y"]
    found = dump("--dump-path", folder, "--model", "m", *words)
    assert found["dump_level"] == "op"
    assert found["dump_list"] == [
        {
            "model_name": "m",
            "optype_blacklist": [{"name": "Cast", "pos": ["input0", "output1"]}],
            "opname_blacklist": [{"name": "a:b", "pos": ["output0"]}],
            "opname_range": [{"begin": "x", "end": "y"}],
        }
    ]
    assert dump("--dump-path", folder, "--skip-op", "a:b:")["dump_list"] == [
        {"opname_blacklist": [{"name": "a:b"}]}
    ]


def test_skipped_ops_get_their_positions_from_the_model(folder, om):
    found = dump("--dump-path", folder, "--om", om, "--skip-type", "Conv2D", "--skip-op", "pool")[
        "dump_list"
    ]
    assert found == [
        {
            "model_name": "net",
            "optype_blacklist": [{"name": "Conv2D", "pos": ["input0", "input1", "output0"]}],
            "opname_blacklist": [{"name": "pool", "pos": ["input0", "output0"]}],
        }
    ]


def layers(folder, om, *words):
    (entry,) = dump("--dump-path", folder, "--om", om, *words)["dump_list"]
    assert entry["model_name"] == "net"
    return entry.get("layer")


def test_layers_are_selected_from_the_model(folder, om):
    assert layers(folder, om) is None
    assert layers(folder, om, "--layers", "*o*") == ["fused_conv", "pool", "soft/max"]
    assert layers(folder, om, "--layers", "p*") == ["pool"]
    assert layers(folder, om, "--layers", "bn*") == ["fused_conv"]
    assert layers(folder, om, "--type", "Pooling", "--type", "SoftmaxV2") == ["pool", "soft/max"]
    assert layers(folder, om, "--around", "pool") == ["fused_conv", "pool", "soft/max"]
    assert layers(folder, om, "--around", "conv1", "--radius", "0") == ["fused_conv"]
    assert layers(folder, om, "--around", "pool", "--radius", "2") == [
        "trans_in",
        "fused_conv",
        "pool",
        "soft/max",
    ]
    assert layers(folder, om, "--first", "2") == ["trans_in", "fused_conv"]
    assert layers(folder, om, "--last", "1") == ["soft/max"]
    assert layers(folder, om, "--layers", "*", "--last", "2") == ["pool", "soft/max"]
    assert layers(folder, om, "--model", "net:relu1,pool") == ["fused_conv", "pool"]
    assert layers(folder, om, "--model", "net", "--type", "Pooling") == ["pool"]


def test_layers_that_cannot_be_selected_are_refused_with_names(folder, om):
    base = ("--dump-path", folder, "--om", om)
    assert "trans_in" in refused(2, *base, "--model", "net:input").hint
    assert "soft/max" in refused(2, *base, "--model", "net:Node_Output").hint
    assert "fused_conv" in refused(2, *base, "--layers", "weights").hint
    assert "trans_in" in refused(2, *base, "--type", "Data").hint
    assert "'pool'" in refused(2, *base, "--model", "net:poll").hint
    assert "'Pooling'" in refused(2, *base, "--type", "Poling").hint
    assert "net" in refused(2, *base, "--model", "nett").hint
    refused(2, *base, "--around", "nothing")
    refused(2, *base, "--op-range", "pool..fused_conv")
    refused(2, "--dump-path", folder, "--layers", "a*")
    refused(2, "--dump-path", folder, "--list")


def test_npu_settings_hold_the_layers(folder, om):
    code, found = write("-q", "--for", "npu-json", "--dump-path", folder, "--model", "m:a,b")
    assert (code, found) == (0, {"enable_dump": True, "dump_path": folder, "dump_layer": "a b"})
    code, found = write(
        "-q",
        "--for",
        "npu-json",
        "--dump-path",
        folder,
        "--om",
        om,
        "--type",
        "Pooling",
        "--debug-mode",
        "all",
    )
    assert found["dump_layer"] == "pool"
    code, found = write(
        "-q",
        "--for",
        "npu-json",
        "--dump-path",
        folder,
        "--debug",
        "--debug-mode",
        "atomic_overflow",
    )
    assert found == {
        "dump_path": folder,
        "enable_dump_debug": True,
        "dump_debug_mode": "atomic_overflow",
    }


@pytest.mark.parametrize(
    "words",
    [
        ["--op-switch", "on"], ["--op-switch", "off"], ["--stats", "Max"], ["--level", "op"],
        ["--scene", "lite_exception"],
        ["--watch-node", "a"], ["--skip-type", "Cast"], ["--skip-op", "a"], ["--op-range", "a..b"],
        ["--kernel-data", "all"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["estimator", "session", "tf2", "npu-json"])
def test_options_only_for_acl_json_are_refused_for_npu_settings(folder, form, words, tmp_path):
    out = str(tmp_path / "out")
    error = refused(2, "--for", form, "--dump-path", folder, "-o", out, *words)
    assert words[0] in error.message
    assert not os.path.exists(out)


@pytest.mark.parametrize(
    "code, words",
    [
        (2, ["--step", "5-5"]),
        (2, ["--step", "5|"]),
        (2, ["--step", "9-5"]),
        (2, ["--step", "2147483648"]),
        (2, ["--step", "x"]),
        (2, ["--stats", "Max"]),
        (2, ["--data", "stats", "--stats", "max"]),
        (2, ["--data", "stats", "--stats", "Max,,Min"]),
        (2, ["--kernel-data", "all,"]),
        (2, ["--debug", "--model", "m"]),
        (2, ["--debug", "--op-switch", "on"]),
        (2, ["--scene", "lite_exception", "--model", "m"]),
        (2, ["--scene", "watcher"]),
        (2, ["--scene", "watcher", "--watch-node", "a", "--model", "m"]),
        (2, ["--watch-node", "a", "--model", "m"]),
        (2, ["--model", "m", "--model", "m:a"]),
        (2, ["--model", "m", "--level", "all", "--skip-op", "a:input0"]),
        (2, ["--op-range", "a..b"]),
        (2, ["--op-range", "ab", "--model", "m"]),
        (2, ["--skip-op", "a:in0"]),
        (2, ["--model", ""]),
        (2, ["--model", "m:a,,b"]),
        (2, ["--model", "m:"]),
        (2, ["--radius", "2"]),
        (2, ["--debug-mode", "aicore_overflow"]),
        (2, ["--debug", "--debug-mode", "aicore_overflow"]),
        (2, ["--cann", "later"]),
        (2, ["--for", "acl.json"]),
        (4, ["--om", "no.json", "--first", "1"]),
        (4, ["--om", ".", "--first", "1"]),
        (4, ["--narrow", "nothing"]),
        (4, ["--narrow", "."]),
    ],
)
def test_a_refused_configuration_writes_nothing(folder, tmp_path, code, words):
    out = tmp_path / "out.json"
    refused(code, "--dump-path", folder, "-o", out, *words)
    assert not out.exists()
    assert not [name for name in os.listdir(str(tmp_path)) if name.startswith(".goldwatch")]


def test_an_unusable_dump_path_is_refused(folder, tmp_path):
    out = tmp_path / "out.json"
    refused(2, "-o", out)
    refused(2, "--dump-path", folder + "/a b", "-o", out)
    refused(2, "--dump-path", "$HOME/x", "-o", out)
    refused(2, "--dump-path", "/" + "a" * 600, "-o", out)
    refused(4, "--dump-path", folder + "/file", "-o", out)
    assert not out.exists()
    for words in ([], ["--elsewhere"]):
        result = CliRunner().invoke(
            new, ["--dump-path", folder + "/later", "-o", str(out), "--force"] + words
        )
        assert result.exit_code == 0
        assert json.loads(out.read_text())["dump"]["dump_path"] == folder + "/later"
    assert (
        CliRunner()
        .invoke(new, ["--dump-path", folder + "/file", "--elsewhere", "--force", "-o", str(out)])
        .exit_code
        == 0
    )
    refused(4, "--dump-path", folder, "-o", out / "out.json")
    refused(4, "--dump-path", folder, "-o", folder)


def test_a_plan_is_read_from_plan_and_acl_files(folder, tmp_path):
    for form, name in (("plan", "plan.json"), ("acl", "acl.json")):
        path = str(tmp_path / name)
        assert (
            CliRunner()
            .invoke(
                new,
                [
                    "--for",
                    form,
                    "-o",
                    path,
                    "--dump-path",
                    folder,
                    "--model",
                    "m:a",
                    "--level",
                    "op",
                ],
            )
            .exit_code
            == 0
        )
        assert dump("--plan", path)["dump_list"] == [{"model_name": "m", "layer": ["a"]}]
        refused(2, "--plan", path, "--mode", "all")
        refused(2, "--plan", path, "--for", "session")
    (tmp_path / "bad.json").write_text("{")
    refused(4, "--plan", tmp_path / "bad.json")
    refused(4, "--plan", tmp_path / "no.json")


def test_list_shows_each_op_of_the_model_and_whether_it_dumps(om):
    result = CliRunner().invoke(new, ["--om", om, "--list"])
    lines = [line.split("\t") for line in result.output.splitlines()]
    assert lines[3] == ["fused_conv", "Conv2D", "conv1,bn1,relu1", "dumpable"]
    assert lines[0][:2] == ["input", "Data"] and "dump" in lines[0][3] and lines[0][3] != "dumpable"
    assert lines[2][2] == "*"
    found = json.loads(CliRunner().invoke(new, ["--om", om, "--list", "--format", "json"]).output)[
        "ops"
    ]
    assert len(found) == len(lines) == 8
    assert found[3] == {
        "model": "net", "op": "fused_conv", "type": "Conv2D",
        "original_names": ["conv1", "bn1", "relu1"], "dumpable": True, "reason": None,
    }  # fmt: skip
    assert found[5]["dumpable"] is False and found[5]["reason"]
    chosen = CliRunner().invoke(new, ["--om", om, "--list", "--type", "Pooling"]).output
    assert chosen.splitlines() == ["pool\tPooling\tpool\tdumpable"]


def test_json_output_of_config_new_is_one_document(folder, om, tmp_path):
    out = str(tmp_path / "acl.json")
    words = [
        "config",
        "new",
        "--dump-path",
        folder,
        "--om",
        om,
        "--first",
        "1",
        "-o",
        out,
        "--format",
        "json",
    ]
    process = run_here(["goldwatch", *words])
    assert process.returncode == 0
    document = json.loads(process.stdout)
    assert document["file"] == out and document["for"] == "acl"
    assert json.loads(document["text"]) == json.loads((tmp_path / "acl.json").read_text())
    assert document["plan"]["models"] == [{"name": "net", "layers": ["trans_in"]}]
    assert "per device and step" in process.stderr
    words[-3:-2] = [str(tmp_path / "acl.json" / "x")]
    process = run_here(["goldwatch", *words])
    assert process.returncode == 4
    assert set(json.loads(process.stdout)["error"]) == {"kind", "message", "hint"}


GE_GRAPH = """
graph {
  name: "%s"
  op { name: "x" type: "%s" id: 0 output_desc { dtype: DT_FLOAT shape { dim: 4 } } }
  op { name: "y" type: "Add" input: "x:0" id: 1 output_desc { dtype: DT_FLOAT shape { dim: 4 } } }
}
"""


def test_the_computational_graph_is_found_among_several(folder, tmp_path):
    paths = []
    for number, kind in enumerate(("Data", "IteratorV2", "Variable")):
        path = tmp_path / ("ge_proto_%08d_Build.txt" % number)
        path.write_text(GE_GRAPH % ("ge_default_%d" % number, kind))
        paths += ["--om", path]
    assert dump("--dump-path", folder, "--layers", "y", *paths)["dump_list"] == [
        {"model_name": "ge_default_1", "layer": ["y"]}
    ]
    assert (
        dump("--dump-path", folder, "--om", tmp_path, "--first", "9")["dump_list"][0]["model_name"]
        == "ge_default_1"
    )
    assert (
        dump("--dump-path", folder, "--layers", "y", *paths[:2])["dump_list"][0]["model_name"]
        == "ge_default_0"
    )
    refused(2, "--dump-path", folder, "--layers", "y", *(paths[:2] + paths[4:]))
    (tmp_path / "ge_proto_00000009_Build.txt").write_text(GE_GRAPH % ("other", "GetNext"))
    refused(2, "--dump-path", folder, "--om", tmp_path)


def store(out, om=None, verdicts=("pass", "fail", "fail")):
    with RunStore.begin(out, {"model": om}) as opened:
        for number, (op, verdict) in enumerate(zip(("fused_conv", "pool", "soft/max"), verdicts)):
            row = Row(
                index=number,
                op=op,
                op_type="T",
                tensor=op + ":output:0",
                kind="output",
                verdict=verdict,
                tensor_index=0,
                op_sequence=number + 3,
                timestamp_us=number,
            )
            opened.put(row)


def test_narrow_dumps_the_ops_around_the_first_divergence(folder, om, tmp_path):
    out = str(tmp_path / "out")
    store(out)
    for path in (out, os.path.join(out, "run.sqlite")):
        found = dump("--dump-path", folder, "--narrow", path, "--om", om)
        assert found["dump_mode"] == "all"
        assert found["dump_list"] == [
            {"model_name": "net", "layer": ["fused_conv", "pool", "soft/max"]}
        ]
    found = dump(
        "--dump-path", folder, "--narrow", out, "--om", om, "--radius", "0", "--mode", "output"
    )
    assert (found["dump_mode"], found["dump_list"][0]["layer"]) == ("output", ["pool"])
    found = dump("--dump-path", folder, "--narrow", out)
    assert found["dump_list"] == [{"layer": ["pool", "fused_conv", "soft/max"]}]


def test_narrow_takes_the_model_from_the_comparison(folder, om, tmp_path):
    out = str(tmp_path / "out")
    store(out, om)
    assert dump("--dump-path", folder, "--narrow", out)["dump_list"][0]["model_name"] == "net"
    code, found = write("-q", "--for", "npu-json", "--dump-path", folder, "--narrow", out)
    assert (found["dump_layer"], found["dump_mode"]) == ("fused_conv pool soft/max", "all")


def test_narrow_of_a_trainings_statistics_names_its_model_and_the_step_that_diverges(
    folder, tmp_path
) -> None:
    wrong = Wrong("part0/MatMul", device=1, from_step=2)
    Training(wrong=(wrong,)).write(str(tmp_path / "t"))
    as_statistics(str(tmp_path / "t" / "dump"), str(tmp_path / "t" / "stats"))
    words = ["compare", "t/stats", "t/golden", "-f", "t/graphs", "-o", "out", "--table", "none"]
    assert run_here(["goldwatch", *words], tmp_path).returncode == 1
    for options, step in (([], "2"), (["--step", "1"], "1")):
        path = str(tmp_path / "out")
        found = dump("--dump-path", folder, "--narrow", path, "--data", "tensor", *options)
        (entry,) = found["dump_list"]
        assert (entry["model_name"], found["dump_step"]) == ("ge_default_20260102030405_11", step)
        assert entry["layer"] == ["part0/Mul", "part0/MatMul", "part0/Relu"]


def test_narrow_is_refused_where_nothing_fails(folder, om, tmp_path):
    out = str(tmp_path / "out")
    store(out, om, ("pass", "pass", "pass"))
    assert "outside" in refused(4, "--dump-path", folder, "--narrow", out).message


def test_help_of_config_commands_shows_an_example():
    for words in (["config", "new"], ["config", "check"], ["config"]):
        process = run_here(["goldwatch", *words, "--help"])
        assert process.returncode == 0
        assert "Example:\n    goldwatch config" in process.stdout


def second_model(tmp_path):
    desc = {"dtype": "DT_FLOAT", "shape": {"dim": [4]}}
    ops = [
        {"name": "input", "type": "Data", "output_desc": [desc]},
        {
            "name": "other",
            "type": "Relu",
            "id": 1,
            "input": ["input:0"],
            "input_desc": [desc],
            "output_desc": [desc],
        },
    ]
    path = tmp_path / "second.json"
    path.write_text(json.dumps({"name": "second", "graph": [{"name": "second", "op": ops}]}))
    return str(path)


@pytest.mark.parametrize(
    "words, expected",
    [
        (["--layers", "oth*"], {"second": ["other"]}),
        (["--type", "Pooling"], {"net": ["pool"]}),
        (["--layers", "input", "--layers", "pool", "--layers", "other"], None),
        (
            ["--layers", "pool", "--around", "other", "--radius", "0"],
            {"net": ["pool"], "second": ["other"]},
        ),
        (["--last", "1"], {"net": ["soft/max"], "second": ["other"]}),
    ],
)
def test_of_several_models_one_must_have_the_selected_layers(folder, om, tmp_path, words, expected):
    words = ["--dump-path", folder, "--om", om, "--om", second_model(tmp_path)] + words
    if expected is None:
        assert "never dumps" in str(refused(2, *words))
        return
    assert {entry["model_name"]: entry["layer"] for entry in dump(*words)["dump_list"]} == expected


def test_layers_that_no_model_has_are_refused(folder, om, tmp_path):
    assert "matches no op" in str(
        refused(
            2, "--dump-path", folder, "--om", om, "--om", second_model(tmp_path), "--layers", "zz*"
        )
    )


def test_an_op_to_skip_is_found_by_its_original_name(folder, om):
    found = dump("--dump-path", folder, "--om", om, "--skip-op", "relu1:input0")["dump_list"]
    assert found == [
        {"model_name": "net", "opname_blacklist": [{"name": "fused_conv", "pos": ["input0"]}]}
    ]
