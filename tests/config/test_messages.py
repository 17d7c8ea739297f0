"""Texts of ``config check``, and why ``config new`` refuses."""

from __future__ import annotations

import json
import os
import sys

import pytest
from click.testing import CliRunner
from in_process import run_here
from terminals import run_on_terminal

from goldwatch.base.errors import EXIT_BAD_INPUT, FormatError, GoldwatchError
from goldwatch.cli.config_check import check
from goldwatch.cli.config_new import new


def text_of(tmp_path, content):
    path = tmp_path / "acl.json"
    path.write_text(json.dumps(content))
    result = CliRunner().invoke(check, [str(path)])
    return result.exit_code, result.output


def refusal(*words):
    result = CliRunner().invoke(new, list(words))
    assert isinstance(result.exception, GoldwatchError), result.output
    return str(result.exception), result.exception.hint


def test_an_unreadable_file_is_bad_input_and_no_usage_error(tmp_path, monkeypatch):
    path = tmp_path / "acl.json"
    path.write_text("{}")
    monkeypatch.setattr(os, "access", lambda *_: False)
    error = CliRunner().invoke(check, [str(path)]).exception
    assert (
        isinstance(error, GoldwatchError)
        and error.exit_code == EXIT_BAD_INPUT
        and "cannot be read by this user" in str(error)
    )


def test_the_summary_counts_in_words(folder, tmp_path):
    code, text = text_of(tmp_path, {"dump": {"dump_path": folder}})
    assert code == 1 and text.endswith("(acl): 1 error, 0 warnings\n")
    assert 'fix: write "dump_list": [{}] to dump everything\n' in text
    assert text_of(tmp_path, {"dump": {}})[1].endswith("(acl): 0 errors, 1 warning\n")


def test_a_step_that_cannot_be_repaired_gets_an_example(folder, tmp_path):
    _, text = text_of(
        tmp_path, {"dump": {"dump_path": folder, "dump_list": [{}], "dump_step": "x"}}
    )
    assert 'fix: a form such as "0|5-10"; leave it out for every step\n' in text


def test_no_dump_size_is_given_when_nothing_of_the_model_is_dumped(folder, tmp_path, om):
    path = tmp_path / "acl.json"
    path.write_text(
        json.dumps({"dump": {"dump_path": folder, "dump_list": [{"layer": ["nothing"]}]}})
    )
    assert "per step" not in CliRunner().invoke(check, [str(path), "--om", om]).output


@pytest.mark.parametrize(
    "words, message, hint",
    [
        (
            ["--stats", "Max"],
            '--stats: dump_stats needs dump_data "stats"; aclInit rejects it',
            'add "dump_data": "stats", or leave',
        ),
        (
            ["--stats", "max", "--data", "stats"],
            "--stats: 'max' is not allowed; did you mean 'Max'?",
            "one of: Max, Min",
        ),
        (["--step", "x"], "--step: 'x' is neither", "write a form such as"),
        (
            ["--op-switch", "on", "--step", "1"],
            "--step: dump_step is set, but ops called one by one have no step",
            "leave out dump_step",
        ),
        (
            ["--debug", "--model", "m"],
            "dump_debug on excludes a dump_list",
            "leave out dump_list, or dump_debug",
        ),
    ],
)
def test_refusals_name_the_option_and_what_to_do(folder, words, message, hint):
    found, advice = refusal("--dump-path", folder, *words)
    assert message in found
    assert advice.startswith(hint)


def test_a_missing_dump_path_is_refused_with_its_option():
    message, hint = refusal("--model", "m")
    assert message.startswith("--dump-path: ") and hint == "name an existing folder"


def test_an_unknown_op_type_to_skip_is_warned_of_once(folder, om):
    said = (
        CliRunner()
        .invoke(new, ["--dump-path", folder, "--om", om, "--skip-type", "Nothing:input0"])
        .output
    )
    assert said.count("Nothing") == 2  # in the file and in the warning
    said = (
        CliRunner()
        .invoke(new, ["--dump-path", folder, "--model", "m", "--skip-type", "Conv2D"])
        .output
    )
    assert "Conv2D: without positions nothing is left out; name them" in said


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"dump_list": [{"layer": "conv"}]}, "dump_list[0].layer must be a list"),
        ({"dump_path": 5}, "dump_path must be a string"),
    ],
)
def test_a_plan_with_fields_of_wrong_types_is_refused(tmp_path, fields, message):
    path = tmp_path / "acl.json"
    path.write_text(json.dumps({"dump": dict({"dump_path": "/d", "dump_list": [{}]}, **fields)}))
    found, hint = refusal("--plan", str(path), "--elsewhere")
    assert message in found and hint.startswith(
        "goldwatch config check %s (in Python goldwatch.config.check.check_file) tells" % path
    )


def test_fields_that_a_plan_cannot_hold_are_reported(folder, tmp_path):
    path = tmp_path / "acl.json"
    path.write_text(
        '{"dump": {"dump_path": "%s", "dump_path": "%s", "dump_list": [{"layers": ["a"]}]}}'
        % (folder, folder)
    )
    said = CliRunner().invoke(new, ["--plan", str(path), "-q"]).output
    assert (
        "warning: --plan: /dump/dump_list/0/layers: unknown key 'layers'; did you mean 'layer'?"
        in said
    )
    assert "warning: --plan: /dump/dump_path: the key 'dump_path' is used twice" in said
    own = tmp_path / "plan.json"
    own.write_text(json.dumps({"dump_path": folder, "models": [{"layers": ["a"]}]}))
    assert "--plan" not in CliRunner().invoke(new, ["--plan", str(own)]).output


def test_syntax_errors_of_a_script_are_reported_for_this_python_version(tmp_path):
    path = tmp_path / "train.py"
    path.write_text('print "x"\n')
    assert (
        "not Python %d.%d: " % sys.version_info[:2] in CliRunner().invoke(check, [str(path)]).output
    )
    path.write_bytes(b"x = 1\ny = 2\0\n")
    result = CliRunner().invoke(check, [str(path)])
    assert result.exit_code == 1 and "null bytes" in result.output


@pytest.mark.parametrize(
    "document, message, fix",
    [
        ('{"dump": {"dump_path": "d", "dump_list": [{}]}', "; } is missing", "add } at the end"),
        ('{"dump": {"dump_list": [{', "; }]}} is missing", "add }]}} at the end"),
        (
            '{"dump": {"dump": {"dump_path": "d"}}}',
            "a dump section stands inside another one",
            "move its content one level up",
        ),
        (
            '{"dump": {"dump_layer": "a b"}}',
            "'dump_layer' is a setting of npu_bridge",
            '"dump_list": [{"layer": ["a", "b"]}]',
        ),
        (
            '{"dump": {"dump_list": [{"dump_layer": "a"}]}}',
            "here it is called 'layer'",
            '"layer": ["a"]',
        ),
        (
            '{"dump": {"enable_dump_debug": true}}',
            "acl.json calls it dump_debug",
            '"dump_debug": "on"',
        ),
        (
            '{"enable": true, "dump_layer": "a"}',
            "unknown key 'enable'; did you mean 'enable_dump'?",
            "fix: enable_dump",
        ),
        (
            '{"dump": {"dump_list": [{"layer": ["conv1,pool1"]}]}}',
            "is one name that holds commas",
            'fix: "conv1", "pool1"',
        ),
        (
            '{"dump": {"dump_list": [{"layer": ["conv*"]}]}}',
            "'conv*' is a pattern; no consumer knows patterns",
            "list the ops' names",
        ),
        (
            '{"dump": {"dump_scene": "lite_exception:off"}}',
            "did you mean 'lite_exception:disable'?",
            'fix: "lite_exception:disable"',
        ),
    ],
)
def test_likely_mistakes_are_explained_with_a_fix(tmp_path, document, message, fix):
    path = tmp_path / "acl.json"
    path.write_text(document)
    said = CliRunner().invoke(check, [str(path)]).output
    assert message in said and fix in said


@pytest.mark.parametrize(
    "option, near", [("quant_dumpable", None), ("data_dump_stages", "data_dump_stage")]
)
def test_an_option_that_has_but_dump_in_common_is_no_misspelling(tmp_path, option, near):
    path = tmp_path / "s.py"
    path.write_text(
        'import torch\nimport torch_npu\nopts = {"dump_tensor_data": True, %r: True}\n'
        'f = torch.compile(m, backend="npugraph_ex", options=opts, fullgraph=True)\n' % option
    )
    said = CliRunner().invoke(check, [str(path)]).output
    assert "npugraph_ex has no option %r" % option in said, said
    assert ("did you mean %r" % near in said) if near else ("did you mean" not in said), said


def test_an_option_that_is_given_is_not_what_another_one_was_meant_for(tmp_path):
    path = tmp_path / "s.py"
    path.write_text(
        'import torch\nimport torch_npu\nopts = {"dump_tensor_data": True, "data_dump_path": "d", '
        '"data_dump_stage": "optimized"}\n'
        'f = torch.compile(m, backend="npugraph_ex", options=opts, fullgraph=True)\n'
    )
    said = CliRunner().invoke(check, [str(path)]).output
    assert "did you mean 'data_dump_dir'" in said and "fix: data_dump_dir" in said, said


def test_a_switch_of_a_script_is_mended_in_python(tmp_path):
    path = tmp_path / "s.py"
    path.write_text(
        "import torchair\nconfig = torchair.CompilerConfig()\n"
        'config.dump_config.enable_dump = "True"\n'
        "torchair.get_npu_backend(compiler_config=config)\n"
    )
    said = CliRunner().invoke(check, [str(path)]).output
    assert "must be True or False" in said and "fix: True" in said and "true" not in said, said


@pytest.mark.parametrize("name", ["op_debug_level", "op_debug_config", "precision_mode"])
def test_an_argument_of_the_run_config_is_no_misspelt_dump_setting(tmp_path, name):
    path = tmp_path / "s.py"
    for text in (
        "from npu_bridge.npu_init import DumpConfig, NPURunConfig\n"
        'NPURunConfig(dump_config=DumpConfig(enable_dump=True, dump_path="/", %s=1))\n' % name,
        "import npu_device\nnpu_device.global_options().dump_config.%s = 1\n" % name,
        '{"enable_dump": true, "dump_path": "/", "%s": 1}' % name,
    ):
        path = path.with_suffix(".json" if text.startswith("{") else ".py")
        path.write_text(text)
        said = CliRunner().invoke(check, [str(path)]).output
        assert name in said and "did you mean" not in said, said
        if "NPURunConfig" in text:
            assert "it is one of NPURunConfig's" in said, said
            assert "fix: give it to NPURunConfig" in said, said


def test_the_name_of_the_om_file_settles_the_model_name(folder, tmp_path, om):
    path = tmp_path / "acl.json"
    path.write_text(
        json.dumps({"dump": {"dump_path": folder, "dump_list": [{"model_name": "resnet"}]}})
    )
    said = CliRunner().invoke(check, [str(path), "--om", om])
    assert (
        said.exit_code == 0
        and "it may be the .om file's name" in said.output
        and "--om-name NAME" in said.output
    )
    assert (
        "unknown-model"
        not in CliRunner().invoke(check, [str(path), "--om", om, "--om-name", "a/resnet.om"]).output
    )
    wrong = CliRunner().invoke(check, [str(path), "--om", om, "--om-name", "vgg"])
    assert wrong.exit_code == 1 and "no model is called 'resnet'" in wrong.output
    written = CliRunner().invoke(
        new,
        ["--dump-path", folder, "--om", om, "--om-name", "resnet", "--model", "resnet:pool", "-q"],
    )
    assert json.loads(written.output)["dump"]["dump_list"] == [
        {"model_name": "resnet", "layer": ["pool"]}
    ]


def test_a_script_over_2_mib_is_refused(tmp_path):
    path = tmp_path / "train.py"
    path.write_bytes(b"x = 1\n" * (2 * 1024 * 1024 // 6 + 1))
    result = CliRunner().invoke(check, [str(path)])
    assert isinstance(result.exception, FormatError) and result.exception.exit_code == 4
    assert "train.py: the script is larger than 2 MiB, the most that is read" in str(
        result.exception
    )


def test_model_names_left_out_of_npu_settings_are_reported(folder):
    said = (
        CliRunner()
        .invoke(new, ["--for", "estimator", "--dump-path", folder, "--model", "X"])
        .output
    )
    assert "npu settings know no model names: X is left out" in said


def test_npu_settings_left_out_of_a_plan_are_reported(folder, tmp_path):
    path = tmp_path / "npu.json"
    path.write_text(json.dumps({"enable_dump": True, "dump_path": folder, "quant_dumpable": "1"}))
    assert (
        "quant_dumpable is no part of a plan"
        in CliRunner().invoke(new, ["--plan", str(path), "--for", "acl"]).output
    )


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("fusion.cfg", "ConvFusionPass:off\nALL:on\n", "a list of fusions to be switched"),
        ("fusion.json", '{"Switch": {"GraphFusion": {"ALL": "off"}}}', "a list of fusions"),
        ("aipp.cfg", "aipp_op {\n  aipp_mode: static\n}\n", "a configuration of AIPP"),
        ("config.ini", "[acl_option_cfg_param]\nx=1\n", "MindSpore Lite's converter"),
        ("keep.cfg", "conv1\nOpType::Pow\n", "a list of operators"),
        ("list.json", '{"gray-list": {"to-add": ["Pow"]}}', "a list of operators for mixed"),
        ("ops.json", '[{"op": "Add", "input_desc": []}]', "a description of single operators"),
        ("op_add.json", '[{"op": "A", "input_desc": [{"param_type": "required"}]}]', "msopgen's"),
        ("report.json", '{"op": [{"check_result": "success"}]}', "atc's report"),
        ("train", "#!/usr/bin/env python3\nimport acl\n", "a Python script"),
        ("old.cfg", "# off\nUbFusion:off\n\nDeadCode:on\n", "a list of fusions to be switched"),
        ("common.ini", "; site\n[common]\ndevice_id=0\n", "an ini file"),
        ("aic.ini", "[AddDSL]\ninput0.name=x1\nopFile.value=add\n", "operator information"),
        ("keep_dtype.cfg", "a/level_2/truediv\na/level_2/mul_1\n", "a list of names"),
        ("customize_dtypes.cfg", "Gemm_17::InputDtype:float16,OutputDtype:float16", "a list of op"),
        ("op_precision.ini", "Sigmoid=high_performance\n", "a list of settings"),
        ("op_desc.txt", "op_type: Add\ninput0: x1 float16 ND\n", "a list of settings"),
        ("op.txt", 'op {\n  name: "Add"\n  input_arg { name: "x" }\n}\n', "a protobuf message"),
        ("amct.cfg", 'activation_offset:true\nskip_layers:["c"]\n', "quantisation (AMCT)"),
        ("hccl.json", '{"server_count": "1", "server_list": []}', "HCCL's rank table"),
        ("run.txt", "run atc with --model=x.onnx, then ais_bench\n", "a text file"),
        ("run.yaml", "device_target: Ascend\ndump_path: /data\n", "a YAML file"),
        ("debug.cfg", "op_debug_config = oom,dump_cce\n", "a list of settings"),
        ("data.bin", "\x01\x02{\x83" * 9, "raw bytes without a header"),
        ("data.pb", "\n\x03abc\x10\x05", "a binary protobuf message"),
    ],
)
def test_a_file_that_configures_no_dump_is_called_what_it_is(tmp_path, name, text, words):
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    result = CliRunner().invoke(check, [str(tmp_path / name)])
    assert result.exit_code == 1 and "1 error, 0 warnings" in result.output
    assert words in result.output and "no configuration of a dump [other-file]" in result.output


@pytest.mark.parametrize(
    "command",
    [
        "nohup python3 -u train.py --x=1 > log 2>&1 &",
        "python -m torch.distributed.launch --nproc_per_node=8 train.py --x 1",
        "torchrun --nnodes 1 \\\n  --node_rank 0 train.py",
        "msrun --worker_num=8 train.py",
        "nohup python3.7 ${cur_path}/../train.py --x=1 &",
        'python3 setup.py\nnohup ${bind_core} python3 "$cur_path/train.py" --x=1',
    ],
)
@pytest.mark.parametrize("folder", ["", "test", "test/run"])
def test_of_a_shell_script_the_script_that_it_starts_is_named(tmp_path, command, folder):
    path = tmp_path / "net" / folder / "train_1p.sh"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/bash\n# python3 is 3.7\n%s\n" % command)
    script = tmp_path / "net" / "train.py"
    if ".." in command:
        script = path.parent.parent / "train.py"
    script.write_text("")
    output = CliRunner().invoke(check, [str(path)]).output
    assert "goldwatch config check %s\n" % script in output


def test_of_a_script_that_is_not_there_the_name_is_told_as_it_is_written(tmp_path):
    path = tmp_path / "train_1p.sh"
    path.write_text("#!/bin/bash\ncd /home/net\npython3 src/train.py\n")
    output = CliRunner().invoke(check, [str(path)]).output
    assert "the script that it starts: goldwatch config check src/train.py\n" in output


def test_dump_settings_that_a_shell_script_exports_are_named(tmp_path):
    path = tmp_path / "serve.sh"
    script = "export ASCEND_DUMP_SCENE=lite_exception\nATB_SAVE_TENSOR=1 python run.py\n"
    path.write_text(script)
    output = CliRunner().invoke(check, [str(path)]).output
    assert "it sets ASCEND_DUMP_SCENE, ATB_SAVE_TENSOR for what it starts; these" in output
    assert "find no dump settings" not in output
    path.write_text("export DUMP_DIR=/data\npython run.py\n")
    assert "find no dump settings in it" in CliRunner().invoke(check, [str(path)]).output


def test_a_module_that_is_given_the_optimizer_may_set_dump_options(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import tensorflow as tf\nfrom settings import apply\nconfig = tf.ConfigProto()\n"
        "custom = config.graph_options.rewrite_options.custom_optimizers.add()\n"
        'custom.name = "NpuOptimizer"\napply(custom)\n'
    )
    output = CliRunner().invoke(check, [str(path)]).output
    assert "may be set elsewhere, by apply() of module settings" in output, output


SESSION = """import functools
import tensorflow as tf
from npu_bridge.npu_init import *
from settings import apply, make, Helper
config = tf.ConfigProto()
custom = config.graph_options.rewrite_options.custom_optimizers.add()
custom.name = "NpuOptimizer"
%s
tf.Session(config=config)
"""


@pytest.mark.parametrize(
    ("line", "who"),
    [
        ("apply(op=custom)", "apply"),
        ("apply(custom.parameter_map)", "apply"),
        ("apply(config.graph_options.rewrite_options)", "apply"),
        ("functools.partial(apply, path='/tmp')(config)", "apply"),
        ("put = functools.partial(apply, path='/tmp')\nput(config)", "apply"),
        ("put = lambda proto: apply(proto)\nput(config)", "apply"),
        ("def put(proto):\n    apply(proto)\nput(config)", "apply"),
        ("helper = Helper()\nhelper.put(config)", "Helper"),
        ("made = functools.partial(make, '/tmp')\ntf.Session('', None, made())", "make"),
        ("tf.estimator.RunConfig(session_config=make())", "make"),
        ("opened = functools.partial(tf.Session, config=make())\nopened()", "make"),
        ("from settings import enable_dump\nenable_dump()", "enable_dump"),
    ],
)
def test_what_of_another_module_may_set_dump_options_is_named(tmp_path, line, who):
    path = tmp_path / "train.py"
    path.write_text(SESSION % line)
    output = CliRunner().invoke(check, [str(path)]).output
    assert "may be set elsewhere, by %s() of module settings" % who in output, output


@pytest.mark.parametrize(
    "line",
    [
        "import torch, torchair\nset_options(torchair.CompilerConfig().dump_config)",
        "import npu_device\noptions = npu_device.global_options()\nput(options.dump_config)",
        "from npu_bridge.npu_init import *\ntf.Session(config=named())",
    ],
)
def test_a_name_may_come_from_a_module_all_names_of_which_are_imported(tmp_path, line):
    path = tmp_path / "train.py"
    path.write_text("from settings import *\n" + line)
    output = CliRunner().invoke(check, [str(path)]).output
    assert "may be set elsewhere, by" in output and "perhaps of module settings" in output, output


@pytest.mark.parametrize(
    "line",
    [
        "print(config)",
        "import logging\nlogging.info(config)",
        "apply(config.device_count)",
        "apply(x)",
    ],
)
def test_what_only_looks_at_a_configuration_sets_no_dump_option(tmp_path, line):
    path = tmp_path / "train.py"
    path.write_text(SESSION % line)
    assert "the script sets no dump option" in CliRunner().invoke(check, [str(path)]).output


@pytest.mark.parametrize(
    ("debug", "wrong"), [("config.", True), ("config.debug.", False), ("other.", False)]
)
def test_a_debug_dump_that_is_set_beside_debug_is_an_error(tmp_path, debug, wrong):
    path = tmp_path / "train.py"
    path.write_text(
        "import torchair\nfrom settings import other\nconfig = torchair.CompilerConfig()\n"
        'config.dump_config.enable_dump = True\n%sdata_dump.type = "npy"\n' % debug
    )
    output = CliRunner().invoke(check, [str(path)]).output
    message = "CompilerConfig has no data_dump: it is debug.data_dump.type [unknown-option]"
    assert (message in output) is wrong, output


@pytest.mark.parametrize("typed", [True, False])
def test_the_path_of_torchairs_data_dump_needs_a_type(tmp_path, typed):
    path = tmp_path / "train.py"
    path.write_text(
        "import torchair\nconfig = torchair.CompilerConfig()\n"
        'config.debug.data_dump.path = "/data"\n' + 'config.debug.data_dump.type = "npy"\n' * typed
    )
    output = CliRunner().invoke(check, [str(path)]).output
    assert ("and no debug.data_dump.type [all-switches-off]" in output) is not typed, output
    assert "sets no dump option" not in output


def test_of_a_shell_script_the_file_that_it_names_comes_first(tmp_path):
    path = tmp_path / "train.sh"
    for line in (
        "export TORCH_ACL_INIT_CONFIG_PATH=/data/acl.json\npython train.py\n",
        'vllm serve m --additional-config \'{"dump_config_path": "/data/acl.json"}\' &\n',
    ):
        path.write_text("#!/bin/sh\n" + line)
        output = CliRunner().invoke(check, [str(path)]).output
        assert "goldwatch config check /data/acl.json\n" in output


def test_of_mindspores_configuration_what_compare_takes_of_it_is_told(tmp_path):
    path = tmp_path / "data_dump.json"
    path.write_text('{"common_dump_settings": {"op_debug_mode": 3, "path": "/d"}}')
    output = CliRunner().invoke(check, [str(path)]).output
    assert "MindSpore's own dump configuration" in output and "the folder with rank_N" in output


def test_of_another_programs_json_no_key_is_advised_to_be_left_out(tmp_path):
    path = tmp_path / "calibration.json"
    path.write_text('{"format": "QDQ", "calibration": {"batches": 8}}')
    output = CliRunner().invoke(check, [str(path)]).output
    assert "no dump section, and no key of an acl.json" in output and "unknown-key" not in output


@pytest.mark.parametrize(
    ("text", "by"),
    [
        (
            "from msit_llm import DumpConfig\nDumpConfig(dump_path='./d', token_range=[0])\n",
            "another tool's DumpConfig",
        ),
        ("class DumpConfig:\n    pass\nDumpConfig(path='./d')\n", "the script's own DumpConfig"),
        (
            "from mindspore import context\ncontext.set_context(enable_dump=True)\n",
            "set_context() of module mindspore",
        ),
        (
            "import mindspore as ms\nms.dump.set_dump(net.conv1)\n",
            "set_dump() of module mindspore",
        ),
    ],
)
def test_of_arguments_that_stand_in_the_script_it_is_not_said_that_they_stand_elsewhere(
    tmp_path, text, by
):
    path = tmp_path / "s.py"
    path.write_text(text)
    output = CliRunner().invoke(check, [str(path)]).output
    assert "dump options may be set by %s: not judged" % by in output, output
    assert "does not stand in this script" not in output


def test_settings_of_another_module_are_named_with_it(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import precision_tool.tf_config as tool\nimport os, mine\n"
        'os.environ["TORCH_ACL_INIT_CONFIG_PATH"] = "/data/acl.json"\n'
        "NPURunConfig(dump_config=tool.estimator_dump_config)\n"
        "NPURunConfig(dump_config=mine.make())\n"
    )
    output = CliRunner().invoke(check, [str(path)]).output
    assert "by estimator_dump_config of module precision_tool.tf_config: not judged" in output
    assert "by make() of module mine: not judged" in output
    assert "TORCH_ACL_INIT_CONFIG_PATH: not judged; it names /data/acl.json" in output
    assert "goldwatch config check /data/acl.json\n" in output
    assert "sets no dump option" not in output


def test_on_another_machine_the_option_for_that_is_proposed(tmp_path, folder):
    hint = "hint: --elsewhere, if another machine dumps: its folders are not judged\n"
    assert hint in text_of(tmp_path, {"dump": {"dump_path": "/no/such", "dump_list": [{}]}})[1]
    assert "hint" not in text_of(tmp_path, {"dump": {"dump_path": folder, "dump_list": [{}]}})[1]


@pytest.mark.parametrize(
    "options, step, expected",
    [
        ((), None, "about 2.2 KiB per device and step (1 op, 1 tensor)"),
        (("--devices", "8"), None, "per device and step (1 op, 1 tensor); 8 devices, each step: "),
        ((), "0-2", "per device and step (1 op, 1 tensor); 3 steps: 6.8 KiB"),
        (("--devices", "2"), "0-2", "(1 op, 1 tensor); 2 devices, 3 steps: 13.5 KiB"),
    ],
)
def test_the_size_is_told_for_one_device_and_step_and_in_all(
    folder, tmp_path, om, options, step, expected
):
    dump = {"dump_path": folder, "dump_list": [{"layer": ["pool"]}], "dump_mode": "output"}
    path = tmp_path / "acl.json"
    path.write_text(json.dumps({"dump": dict(dump, **({"dump_step": step} if step else {}))}))
    output = CliRunner().invoke(check, [str(path), "--om", om, *options]).output
    assert expected in output
    words = ["--om", om, "--dump-path", folder, "--layers", "pool", "-o", str(tmp_path / "x.json")]
    result = CliRunner().invoke(new, [*words, *options, *(("--step", step) if step else ())])
    assert expected in result.output


@pytest.mark.parametrize("text", ["dump: {\n dump_path: /x\n}\n", "enable_dump: true\n"])
def test_a_text_that_was_meant_to_configure_a_dump_is_told_its_mistake(tmp_path, text):
    path = tmp_path / "acl.json"
    for data in (text.encode(), '{"dump": {}}'.encode("utf-16")):
        path.write_bytes(data)
        result = CliRunner().invoke(check, [str(path)])
        assert result.exit_code == 1 and "other-file" not in result.output, result.output


@pytest.mark.parametrize("columns", [80, 0])
def test_a_report_is_folded_on_a_terminal(tmp_path, columns):
    (tmp_path / "npu.json").write_text(json.dumps({"enable_dump": True, "dump_path": "d"}))
    words = [sys.executable, "-m", "goldwatch", "config", "check", "npu.json", "-q"]
    shown, _ = run_on_terminal(
        words, columns, cwd=str(tmp_path), env={**os.environ, "NO_COLOR": "1"}
    )
    lines = shown.decode().splitlines()
    whole = run_here(words[2:], tmp_path).stdout.splitlines()
    assert max(map(len, whole)) > 80 >= max(map(len, lines))
    assert " ".join(" ".join(lines).split()) == " ".join(" ".join(whole).split())
