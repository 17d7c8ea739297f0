from __future__ import annotations

import json

import pytest

from goldwatch.base.errors import FormatError
from goldwatch.device.cure.compiler_precision_options import (
    CUSTOMIZE,
    KEEP_DTYPE,
    MIXLIST,
    MODES,
    NPU,
    OP_PRECISION,
    command_of,
    content,
    earlier_file,
    units_of,
)
from goldwatch.device.cure.precision_causes import OpPrecision
from goldwatch.model.graph import ModelGraph
from goldwatch.model.op_node import OpNode, TensorDesc

HALF, WHOLE = TensorDesc("DT_FLOAT16"), TensorDesc("DT_INT32")


def facts(name, op_type="Relu", originals=None, dtype="float16", **more):
    return OpPrecision(
        name, op_type, (name,) if originals is None else originals, dtype, 1e-3, "rounding", **more
    )


@pytest.fixture
def graph():
    ops = [
        OpNode(
            "conv",
            "Conv2D",
            0,
            0,
            0,
            input_descs=(HALF, HALF),
            output_descs=(HALF,),
            original_names=("conv", "bn", "relu"),
        ),
        OpNode(
            "exp",
            "Exp",
            1,
            0,
            1,
            input_descs=(HALF,),
            output_descs=(HALF,),
            original_names=("exp",),
        ),
        OpNode(
            "top",
            "TopKV2",
            2,
            0,
            2,
            input_descs=(HALF, WHOLE),
            output_descs=(HALF, WHOLE),
            original_names=("top",),
        ),
    ]
    return ModelGraph("net", ["net"], ops)


@pytest.fixture
def network():
    found = [
        facts("conv", "Conv2D", ("conv", "bn", "relu", "weight")),
        facts("exp", "Exp"),
        facts("exp2", "Exp"),
        facts("top", "TopKV2"),
        facts("trans", "Abs", ()),
        facts("wide", "Softmax", dtype="float32"),
        facts("product", "MatMul", dtype="float32", product=True),
    ]
    return {one.name: one for one in found}


def test_keep_dtype_names_every_original_node_of_a_fused_op(network, graph):
    units, refused = units_of(
        KEEP_DTYPE, network, graph, {"conv", "bn", "relu", "exp", "exp2", "top"}
    )
    assert units["conv + bn + relu"].ops == ("conv",)
    assert (
        content(KEEP_DTYPE, [units["conv + bn + relu"], units["exp"]], network)
        == "conv\nbn\nrelu\nexp\n"
    )
    assert refused == {
        "trans": "the compiler put it in: it has no name of the original model",
        "wide": "it is computed in float32 already",
        "product": "it is computed in float32 already",
    }


def test_a_name_that_is_no_original_node_is_not_written(network, graph):
    units, refused = units_of(KEEP_DTYPE, network, graph, {"conv", "exp2"})
    assert set(units) == {"conv", "exp2"}
    assert refused["exp"] == "none of its original names is a node of the original model"


def test_customize_dtypes_gives_the_type_of_each_tensor_and_refuses_fused_ops(network, graph):
    units, refused = units_of(CUSTOMIZE, network, graph, None)
    assert content(CUSTOMIZE, [units["exp"], units["top"]], network) == (
        "exp::InputDtype:float32,OutputDtype:float32\ntop::InputDtype:float32,int32,OutputDtype:float32,int32\n"
    )
    assert refused["conv"].startswith(
        "it was fused of 4 original nodes, and customize_dtypes does nothing for what is fused"
    )


def test_a_mixlist_raises_all_ops_of_a_type(network, graph):
    units, _ = units_of(MIXLIST, network, graph, None)
    assert units["Exp"].ops == ("exp", "exp2")
    assert json.loads(content(MIXLIST, [units["Exp"], units["Conv2D"]], network)) == {
        "black-list": {"to-add": ["Exp", "Conv2D"]}
    }
    assert content(NPU, [units["Exp"]], network) == content(MIXLIST, [units["Exp"]], network)


def test_op_precision_raises_float32_products_that_were_shortened(network, graph):
    units, refused = units_of(OP_PRECISION, network, graph, None)
    made = content(OP_PRECISION, [units["Exp"], units["MatMul"]], network)
    assert made == "Exp = high_precision\nMatMul = enable_float_32_execution\n"
    assert "wide" in refused


def test_entries_of_the_oms_earlier_option_file_stay(network, graph):
    kept, _ = units_of(KEEP_DTYPE, network, graph, None)
    types, _ = units_of(MIXLIST, network, graph, None)
    assert (
        content(KEEP_DTYPE, [kept["exp"]], network, "softmax\nexp\nOpType::Log\n")
        == "softmax\nexp\nOpType::Log\n"
    )
    before = json.dumps(
        {"white-list": {"to-add": ["Exp", "Relu"]}, "black-list": {"to-add": ["Log"]}}
    )
    assert json.loads(content(MIXLIST, [types["Exp"]], network, before)) == {
        "white-list": {"to-add": ["Relu"]}, "black-list": {"to-add": ["Log", "Exp"]},
    }  # fmt: skip
    sections = "Exp=high_performance\nLog=high_precision\n[ByNodeName]\nx=high_precision\n"
    assert content(OP_PRECISION, [types["Exp"]], network, sections).splitlines() == [
        "Log=high_precision", "Exp = high_precision", "[ByNodeName]", "x=high_precision",
    ]  # fmt: skip
    with pytest.raises(FormatError):
        content(MIXLIST, [types["Exp"]], network, "not json")


ATC = "atc --framework=5 --model=net.onnx --output=net --soc_version=Ascend310P3"


def test_the_proposed_command_is_the_oms_with_the_option():
    found = command_of(KEEP_DTYPE, "/cure/keep_dtype.cfg", ATC)
    assert found.words == (
        *ATC.split(),
        "--precision_mode=force_fp16",
        "--keep_dtype=/cure/keep_dtype.cfg",
    )
    assert found.lines == (" ".join(found.words),)
    assert found.notes == (
        "keep_dtype goes with a precision mode: atc's own default, force_fp16, was put in",
    )


def test_the_new_option_replaces_the_earlier_one():
    words = command_of(
        KEEP_DTYPE, "new", ATC + " --precision_mode_v2 fp16 --keep_dtype old.cfg"
    ).words
    assert words[-1] == "--keep_dtype=new" and "--precision_mode_v2=fp16" in words
    assert [word for word in words if "keep_dtype" in word] == ["--keep_dtype=new"]
    assert earlier_file(KEEP_DTYPE, ATC + " --keep_dtype old.cfg") == "old.cfg"
    assert earlier_file(KEEP_DTYPE, ATC) == "" == earlier_file(NPU, ATC)


@pytest.mark.parametrize(
    "given", ["--precision_mode=must_keep_origin_dtype", "--precision_mode_v2=origin"]
)
def test_a_mode_that_keeps_every_type_is_replaced(given):
    found = command_of(KEEP_DTYPE, "f", "%s %s" % (ATC, given))
    assert given not in found.words and "--precision_mode=force_fp16" in found.words
    assert given in found.notes[0]


def test_a_mixlist_sets_mixed_precision():
    assert (
        "--precision_mode_v2=mixed_float16"
        in command_of(MIXLIST, "f", ATC + " --precision_mode=force_fp16").words
    )
    words = command_of(MIXLIST, "f", ATC + " --precision_mode=allow_mix_precision").words
    assert "--precision_mode=allow_mix_precision" in words and not any(
        "precision_mode_v2" in word for word in words
    )


def test_op_precision_excludes_the_implementation_mode():
    found = command_of(
        OP_PRECISION,
        "f",
        ATC + " --op_select_implmode=high_performance --optypelist_for_implmode=Exp",
    )
    assert not any("implmode" in word for word in found.words)
    assert (
        found.notes[0]
        == "--op_select_implmode and --optypelist_for_implmode taken out: op_precision_mode "
        "excludes it"
    )


def test_an_om_without_its_atc_command_is_noted():
    found = command_of(KEEP_DTYPE, "f", "")
    assert found.lines[0].startswith("atc … ") and "does not say the command" in found.notes[0]


def test_training_scripts_get_the_lines_to_add():
    lines = command_of(NPU, "/cure/ops_info.json", "").lines
    assert (
        'custom_op.parameter_map["modify_mixlist"].s = tf.compat.as_bytes("/cure/ops_info.json")'
        in lines
    )
    assert any(line.startswith("NPURunConfig(") for line in lines)
    assert set(MODES) == {"keep-dtype", "mixlist", "customize", "op-precision", "npu"}
