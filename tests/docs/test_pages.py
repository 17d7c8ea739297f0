"""README and docs/: each command is parsed, those without requirements are run, and their output is
as shown.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial

import click
import numpy as np
import onnx_device
import onnx_models
import onnx_networks
import precision_scenes
import pytest
from in_process import make_dumps, run_here
from torchair_runs import torchair_graph

from goldwatch.cli import goldwatch
from goldwatch.testing import Training
from goldwatch.testing.commands import program
from goldwatch.testing.training import Wrong
from pages import (
    NEEDS,
    PAGES,
    ROOT,
    TRANSLATIONS,
    blocks_of,
    matches,
    run_steps,
    steps_of,
    text_of,
    with_shims,
)

DATA = os.path.join(ROOT, "tests", "data")
EXAMPLES = os.path.join(ROOT, "docs", "examples")


def run(folder, line, codes=(0,)):
    words = shlex.split(line)
    done = run_here([sys.executable, *words[1:]] if words[0] == "python" else words, folder)
    assert done.returncode in codes, (line, done.stderr)


def three_ops(folder):
    make_dumps(folder)
    for name in ("target", "golden"):
        np.save(str(folder / (name + ".npy")), np.ones((2, 3), np.float32))


def resblock(folder, name="resblock", inputs="input_data.npy"):
    for suffix in (".prototxt", ".caffemodel"):
        shutil.copy(
            os.path.join(DATA, "caffe", "resblock", "resblock" + suffix),
            str(folder / (name + suffix)),
        )
    shutil.copy(os.path.join(DATA, "caffe", "resblock", "input_data.npy"), str(folder / inputs))


def net_on_device(folder, more=""):
    resblock(folder, "net", "input.npy")
    run(
        folder,
        "python -m goldwatch.testing caffe net.prototxt net.caffemodel . -i data=input.npy " + more,
    )


def checkout(folder):
    """A link to the checkout."""
    (folder / "checkout").symlink_to(ROOT)


def with_golden(folder, more=""):
    net_on_device(folder, more)
    run(
        folder,
        "goldwatch golden caffe dump net.prototxt net.caffemodel -i data=input.npy -o golden",
    )


def user_metric(folder):
    (folder / "custom" / "algorithm").mkdir(parents=True)
    (metric,) = (
        lines
        for _, _, lines in blocks_of("docs/reference/metrics.md", "python")
        if lines[0].startswith("def compare")
    )
    (folder / "custom" / "algorithm" / "alg_MeanError.py").write_text("\n".join(metric) + "\n")


def migrating(folder):
    three_ops(folder)
    user_metric(folder)
    resblock(folder, "net")
    Training(devices=1, steps=(9, 10)).write(str(folder / "training"))


def metrics(folder):
    three_ops(folder)
    user_metric(folder)


def model_json(folder):
    desc = {"dtype": "DT_FLOAT", "shape": {"dim": [4]}}
    names = ("conv1", "conv2", "pool1")
    ops = []
    for i, name in enumerate(names):
        kind = "Conv2D" if "conv" in name else "Pooling"
        ops.append(
            {
                "name": name,
                "type": kind,
                "id": i,
                "input": [names[i - 1] + ":0"] if i else [],
                "output_desc": [desc],
            }
        )
    (folder / "model.json").write_text(
        json.dumps({"name": "resnet50", "graph": [{"name": "g", "op": ops}]})
    )


def submodel(folder):
    with_golden(folder)
    run(
        folder,
        "goldwatch compare dump golden -f model.json -o out --limit RelativeEuclideanDistance<1e-9",
        (1,),
    )


def replay(folder):
    resblock(folder)
    run(
        folder,
        "python -m goldwatch.testing caffe resblock.prototxt resblock.caffemodel run -i "
        "data=input_data.npy",
    )


def report(folder):
    three_ops(folder)
    run(folder, "goldwatch compare dump golden -f model.json -o out")


def accepted(folder):
    """A result, and the script for CI."""
    report(folder)
    shutil.copy(os.path.join(EXAMPLES, "ci.sh"), str(folder))


def two_results(folder):
    for name, words in (("before", ""), ("after", " --broken 1")):
        run(folder, "python -m goldwatch.testing make %s_net --ops 3 --size 4k%s" % (name, words))
        run(folder, "python -m goldwatch.testing serve %s_net %s_net/dump" % (name, name))
        run(
            folder,
            "goldwatch compare {0}_net/dump {0}_net/golden -f {0}_net/model.json -o {0}".format(
                name
            ),
            (0, 1),
        )


def cured(folder):
    """A network that overflows in float16, and the same with three operators in float32."""
    net = precision_scenes.Scene(folder, precision_scenes.overflow)
    net.compare("before")
    net.compare("after", ("large", "turned", "small"))


def two_runs(folder):
    """Three runs, of which one has other bits in what one op gives out."""
    run(folder, "python -m goldwatch.testing make net --ops 3 --size 2k")
    for number, more in ((1, ""), (2, " --flip op_1=100:3 --flip op_1=101"), (3, "")):
        run(
            folder,
            "python -m goldwatch.testing serve net run%d --time 2026010203040%d%s"
            % (number, number, more),
        )


def final_outputs(folder):
    run(folder, "python -m goldwatch.testing make net --ops 3 --size 2k")
    run(folder, "python -m goldwatch.testing outputs net runs")


def listing(folder):
    shutil.copy(
        os.path.join(DATA, "tensorflow", "lt_listing_infer.txt"), str(folder / "tensor_name")
    )
    (folder / "saved_by_hand").mkdir()
    np.save(str(folder / "saved_by_hand" / "bn.1_Const.0.1700000000000000.npy"), np.ones(2))


def infer(folder):
    """The program of docs/watch.md: what it infers goes to the folder of its acl.json."""
    (folder / "infer").write_text(
        "#!/bin/sh\nexec %s -m goldwatch.testing serve net dumps\n" % shlex.quote(sys.executable)
    )
    (folder / "infer").chmod(0o755)


def two_hosts(folder):
    """The dumps, graphs and golden data of two hosts, of which one computes an op wrong on one
    device.
    """
    for host, wrong in (("host1", ()), ("host2", (Wrong("part1/Mul", 1, 2),))):
        Training(steps=(1, 2, 3), wrong=wrong).write(str(folder / host))


def onnx_on_device(folder):
    """A network with a convolution that is wrong on the device, and one with an op that onnxruntime
    lacks.
    """
    path = onnx_models.save(folder / "net.onnx", onnx_networks.cnn())
    x = np.random.RandomState(4).standard_normal((1, 3, 16, 16)).astype(np.float32)
    np.save(str(folder / "x.npy"), x)
    fused = [("Conv_0", "/bn/BatchNormalization", "/relu/Relu")]
    model = onnx_device.on_device(
        path, {"x": x}, fused, ("/conv2/Conv", lambda array: array * np.float32(1.05))
    )
    model.write_tree(str(folder / "dump"))
    onnx_device.write_model(
        model, folder / "model.json", "atc --model=net.onnx --framework=5 --input_shape=x:1,3,16,16"
    )
    nodes = [onnx_networks.node("MyDecode", ["x"], ["y"], name="decode", domain="my.ops")]
    values = [onnx_models.value(name, (1, 3, 16, 16)) for name in "xy"]
    onnx_models.save(
        folder / "custom.onnx", onnx_models.model(nodes, values[:1], values[1:], domains=["my.ops"])
    )
    np.save(str(folder / "decoded.npy"), x)


def two_products(folder):
    """Two products with a Relu between, as an ONNX model."""
    weights = onnx_networks._weights(0, fc1=(64, 32), fc2=(16, 64))
    nodes = [
        onnx_networks.node("Gemm", ["x", "fc1"], ["a"], name="fc1", transB=1),
        onnx_networks.node("Relu", ["a"], ["b"], name="relu"),
        onnx_networks.node("Gemm", ["b", "fc2"], ["y"], name="fc2", transB=1),
    ]
    values = [onnx_models.value("x", (2, 32)), onnx_models.value("y", (2, 16))]
    initializers = [onnx_models.weight(name, array) for name, array in weights.items()]
    onnx_models.save(
        folder / "model.onnx", onnx_models.model(nodes, values[:1], values[1:], initializers)
    )


def torchair(folder):
    """Dumps of a graph of TorchAir that computes a fused op wrong, its FX dump, and a build without
    fusion.
    """
    graph = torchair_graph(fault="AddMul")
    graph.write_ge(str(folder / "ge"))
    graph.write_graph(str(folder / "ge"))
    graph.write_fx(str(folder / "fx"))
    replace(torchair_graph(), compiled=None).write_ge(str(folder / "unfused"))


def dump_folder(folder):
    (folder / "dump").mkdir()


def nothing(folder):
    """Nothing is there."""


FOLDERS = {
    "README.md": net_on_device,
    "CONTRIBUTING.md": nothing,
    "docs/caffe.md": resblock,
    "docs/compare-op.md": three_ops,
    "docs/configuration.md": model_json,
    "docs/convert.md": three_ops,
    "docs/cure.md": cured,
    "docs/diff.md": two_results,
    "docs/doctor.md": dump_folder,
    "docs/install.md": dump_folder,
    "docs/exact.md": two_runs,
    "docs/graph.md": report,
    "docs/guide.md": checkout,
    "docs/inspect.md": three_ops,
    "docs/locate.md": two_products,
    "docs/reference/metrics.md": metrics,
    "docs/migrating.md": migrating,
    "docs/onnx.md": onnx_on_device,
    "docs/outputs.md": final_outputs,
    "docs/design/performance.md": nothing,
    "docs/replay.md": replay,
    "docs/report.md": accepted,
    "docs/reference/results.md": nothing,
    "docs/scale.md": two_hosts,
    "docs/statistics.md": partial(with_golden, more="--op-fault res2a_branch2b=pad"),
    "docs/submodel.md": submodel,
    "docs/tensorflow.md": listing,
    "docs/reference/testing.md": resblock,
    "docs/torchair.md": torchair,
    "docs/watch.md": infer,
}
"""What is there before a page's commands run."""


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(not step.needs for step in steps_of(page))]
)
def test_commands_of_a_page_print_what_it_shows(page, tmp_path, on_terminal):
    assert page in FOLDERS, "say above what is there before its commands run"
    FOLDERS[page](tmp_path)
    run_steps(page, tmp_path, on_terminal)


def test_the_ci_script_removes_the_files_of_an_earlier_run(tmp_path):
    accepted(tmp_path)
    script = ["sh", "ci.sh", "dump", "golden", "model.json", "out"]
    environment = with_shims(str(tmp_path))

    def job():
        return subprocess.run(script, cwd=str(tmp_path), env=environment, timeout=300).returncode

    assert job() == 0
    names = {"junit.xml", "comment.md", "diff.md", "run.sqlite"}
    assert names <= set(os.listdir(str(tmp_path / "goldwatch-out")))
    shutil.rmtree(str(tmp_path / "golden"))
    assert job() == 4 and not (tmp_path / "goldwatch-out").exists()


def test_the_ci_script_begins_without_a_baseline_and_checks_its_arguments(tmp_path):
    accepted(tmp_path)

    def job(*words):
        done = subprocess.run(
            ["sh", "ci.sh", *words],
            cwd=str(tmp_path),
            env=with_shims(str(tmp_path)),
            stderr=subprocess.PIPE,
            universal_newlines=True,
            timeout=300,
        )
        return done.returncode, done.stderr

    code, said = job("dump", "golden", "model.json", "none")
    assert code == 0 and "no baseline yet: " in said and "into none" in said
    assert not (tmp_path / "goldwatch-out" / "diff.md").exists()
    code, said = job("dump", "golden")
    assert code == 2 and said.startswith("usage: sh ci.sh DUMP GOLDEN MODEL.json [BASELINE]")


def test_the_ci_script_fails_when_an_output_is_no_longer_compared(tmp_path):
    accepted(tmp_path)
    (golden,) = (tmp_path / "golden").glob("op_1.*.npy")
    golden.unlink()
    script = ["sh", "ci.sh", "dump", "golden", "model.json", "out"]
    done = subprocess.run(script, cwd=str(tmp_path), env=with_shims(str(tmp_path)), timeout=300)
    assert done.returncode == 3
    written = tmp_path / "goldwatch-out"
    assert '<error type="incomplete"' in (written / "junit.xml").read_text(encoding="utf-8")
    title = (written / "diff.md").read_text(encoding="utf-8").splitlines()[0]
    assert title.startswith("## goldwatch diff: incomplete; ") and "worse than before" in title


def test_imports_of_python_examples_exist():
    for page in PAGES:
        for first, _, lines in blocks_of(page, "python"):
            tree = ast.parse("\n".join(lines))
            found = [
                node
                for node in tree.body
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("goldwatch")
            ]
            # Those of TensorFlow's Python are tried with it.
            tree.body = [node for node in found if "tensorflow" not in str(node.module)]
            exec(compile(tree, "%s from line %d on" % (page, first), "exec"), {})


def test_the_example_of_comparing_two_arrays_prints_what_it_shows(capsys):
    (example,) = (
        "\n".join(lines)
        for _, _, lines in blocks_of("docs/reference/metrics.md", "python")
        if "compare_blocks" in "".join(lines)
    )
    exec(example, {})
    assert capsys.readouterr().out == "%r []\n" % float(np.float32(4.1) - np.float32(4))


def test_every_command_stands_in_a_console_block():
    for page in PAGES:
        assert {step.needs for step in steps_of(page)} <= {"", *NEEDS}, page
        prose = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
        assert not re.findall(r"^ {4}(?:\$|goldwatch|python|scripts/).*", prose, re.M), (
            "%s: put it into a block `console`" % page
        )
        for _, _, lines in [
            *blocks_of(page, "text"),
            *blocks_of(page, "sh"),
            *blocks_of(page, "bash"),
            *blocks_of(page, ""),
        ]:
            assert not [line for line in lines if line.startswith(("$ ", "goldwatch "))], (
                "%s: the block's language is `console`" % page
            )


def inline_commands(page):
    """Return the commands in a page's prose."""
    prose = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`((?:goldwatch |scripts/|python -m goldwatch)[^`\n]*)`", prose)


def parse(group, words, whole):
    """Let click parse the words; with an incomplete example only the command and its options must
    exist.
    """
    context = click.Context(group, info_name="goldwatch")
    command = group
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        if words[0].isupper():
            return  # a placeholder such as COMMAND
        found = command.get_command(context, words[0])
        assert found is not None, "no command %s" % words[0]
        command, words = found, words[1:]
    if whole and not isinstance(command, click.Group) and not {"--help", "-h"} & set(words):
        command.make_context("goldwatch", list(words))
        return
    known = {"--help", "--help-all", "-h", "--version", "-v"}.union(
        *[option.opts + option.secondary_opts for option in command.params]
    )
    for word in words:
        if word == "--":
            break
        if word.startswith("-") and not word.startswith("-…"):
            assert word.split("=")[0] in known, "no option %s" % word


ALL = [(page, step.command, True) for page in PAGES for step in steps_of(page)]
ALL += [
    (page, line.replace("\\|", "|"), False)
    for page in [*PAGES, *TRANSLATIONS]
    for line in inline_commands(page)
]
# Those of a CI system's configuration.
YAML = [(page, line) for page in PAGES for _, _, lines in blocks_of(page, "yaml") for line in lines]
ALL += [
    (page, line[line.index("goldwatch ") :], False) for page, line in YAML if "goldwatch " in line
]


@pytest.mark.parametrize("page, line, whole", ALL, ids=["%s: %s" % entry[:2] for entry in ALL])
def test_each_command_of_a_page_exists_and_its_options_parse(page, line, whole):
    words = [
        word
        for word in shlex.split(line.replace("…", "").replace("'…'", ""))
        if word not in ("[OPTIONS]", "&")
    ]
    while re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words.pop(0)
    if words[0] == "goldwatch":
        parse(goldwatch, words[1:], whole)
    elif words[:2] == ["python", "-m"] and words[2].startswith("goldwatch"):
        assert words[2] in ("goldwatch", "goldwatch.testing")
        parse(program if words[2] == "goldwatch.testing" else goldwatch, words[3:], whole)
    elif words[0].startswith("scripts/"):
        path = os.path.join(ROOT, words[0])
        assert os.path.isdir(path) or os.access(path, os.X_OK) or path.endswith((".py", ".sh")), (
            "no script %s" % words[0]
        )
        if os.path.isfile(path):
            source = text_of(words[0])
            if words[0] == "scripts/bench" and len(words) > 1:
                source += text_of("scripts/benches/%s.py" % words[1])
            for word in words[1:]:
                if word == "--":
                    break
                assert not word.startswith("-") or word in source, "no option %s" % word


@pytest.mark.parametrize(
    "shown, printed, right",
    [
        ([], ["anything"], True),
        (["a", "b", ""], ["a", "b"], True),
        (["a"], ["a", "b"], False),
        (["a", "…"], ["a", "b", "c"], True),
        (["…", "c"], ["a", "b", "c"], True),
        (["took … s"], ["took 1.5 s", ""], True),
        (["took … s"], ["took 1.5 min"], False),
        (["a.c"], ["abc"], False),
    ],
)
def test_shown_and_printed_output_are_compared(shown, printed, right):
    assert matches(shown, printed) is right
