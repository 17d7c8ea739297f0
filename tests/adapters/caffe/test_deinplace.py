"""`deinplace`: hand-written nets, each with the expected text, report and (where Caffe can run it) the numbers of a stand-in for Caffe.

In the texts ``<<old|new>>`` stands for ``old`` in the model and ``new`` in the expected result.
"""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

from goldwatch.adapters.caffe.deinplace import _new_name, deinplace_file, deinplace_text
from goldwatch.errors import InputError, MissingPath, UsageError
from goldwatch.netfiles.caffe_net import Net, State
from goldwatch.netfiles.prototxt import Document

DATA = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 3 dim: 3 } } }\n'
POWER = 'layer { name: "a" type: "Power" bottom: "data" top: "a" power_param { shift: -0.1 } }\n'


def relu(name, bottom, top, extra=""):
    return 'layer { name: "%s" type: "ReLU" bottom: "%s" top: "%s"%s }\n' % (name, bottom, top, extra)


# name: (text, renamed [(layer, old, new)], removed, layers with warnings, changed outputs [(old, new)], runs in Caffe)
CASES = {
    "01 a chain of four": (
        DATA
        + POWER
        + relu("r1", "a", "<<a|r1>>")
        + relu("r2", "<<a|r1>>", "<<a|r2>>")
        + relu("r3", "<<a|r2>>", "<<a|r3>>")
        + relu("r4", "<<a|r3>>", "<<a|r4>>"),
        [("r1", "a", "r1"), ("r2", "a", "r2"), ("r3", "a", "r3"), ("r4", "a", "r4")],
        [],
        [],
        [("a", "r4")],
        True,
    ),
    "02 many consumers": (
        DATA + POWER + relu("r", "a", "<<a|r>>") + relu("x", "<<a|r>>", "x") + relu("y", "<<a|r>>", "y") + relu("z", "<<a|r>>", "z"),
        [("r", "a", "r")],
        [],
        [],
        [],
        True,
    ),
    "03 a reader before the in-place layer": (
        DATA + POWER + relu("early", "a", "early") + relu("r", "a", "<<a|r>>") + relu("late", "<<a|r>>", "late"),
        [("r", "a", "r")],
        [],
        ["r"],
        [],
        False,
    ),
    "04 two branches": (
        DATA
        + POWER
        + relu("r", "a", "<<a|r>>")
        + 'layer { name: "b" type: "Power" bottom: "data" top: "b" }\n'
        + relu("s", "b", "<<b|s>>")
        + 'layer { name: "e" type: "Eltwise" bottom: "<<a|r>>" bottom: "<<b|s>>" top: "e" }\n',
        [("r", "a", "r"), ("s", "b", "s")],
        [],
        [],
        [],
        True,
    ),
    "05 dropout with its own top and a side reader": (
        DATA + POWER + 'layer { name: "d" type: "Dropout" bottom: "a" top: "b" }\n' + relu("r", "b", "<<b|r>>") + relu("side", "a", "side"),
        [("r", "b", "r")],
        [],
        [],
        [("b", "r")],
        True,
    ),
    "06 two dropouts in a row": (
        DATA
        + POWER
        + 'layer { name: "d1" type: "Dropout" bottom: "a" top: "<<a|d1>>" }\n'
        + 'layer { name: "d2" type: "Dropout" bottom: "<<a|d1>>" top: "<<a|d2>>" }\n'
        + relu("r", "<<a|d2>>", "r"),
        [("d1", "a", "d1"), ("d2", "a", "d2")],
        [],
        [],
        [],
        True,
    ),
    "08 the in-place layer has its blob's name": (
        DATA + 'layer { name: "p" type: "Power" bottom: "data" top: "a" }\n' + relu("a", "a", "<<a|a_1>>") + relu("z", "<<a|a_1>>", "z"),
        [("a", "a", "a_1")],
        [],
        [],
        [],
        True,
    ),
    "09 eltwise product in place": (
        DATA
        + POWER
        + relu("b", "data", "b")
        + 'layer { name: "e" type: "Eltwise" bottom: "a" bottom: "b" top: "<<a|e>>" eltwise_param { operation: PROD } }\n'
        + relu("z", "<<a|e>>", "z"),
        [("e", "a", "e")],
        [],
        [],
        [],
        True,
    ),
    "10 eltwise sum in place": (
        DATA
        + POWER
        + relu("b", "data", "b")
        + 'layer { name: "e" type: "Eltwise" bottom: "a" bottom: "b" top: "<<a|e>>" }\n'
        + relu("z", "<<a|e>>", "z"),
        [("e", "a", "e")],
        [],
        ["e"],
        [],
        False,
    ),
    "11 scale with two bottoms in place": (
        DATA + POWER + relu("b", "data", "b") + 'layer { name: "s" type: "Scale" bottom: "a" bottom: "b" top: "<<a|s>>" }\n',
        [("s", "a", "s")],
        [],
        [],
        [("a", "s")],
        True,
    ),
    "12 an in-place layer of TRAIN only": (
        DATA
        + POWER
        + '<<layer { name: "noise" type: "Power" bottom: "a" top: "a" include { phase: TRAIN } power_param { shift: 1000 } }\n|>>'
        + relu("r", "a", "<<a|r>>")
        + relu("z", "<<a|r>>", "z"),
        [("r", "a", "r")],
        ["noise"],
        [],
        [],
        True,
    ),
    "13 in-place layers of TRAIN and TEST": (
        DATA
        + POWER
        + "<<"
        + relu("s_train", "a", "a", " include { phase: TRAIN }")
        + "|>>"
        + relu("s_test", "a", "<<a|s_test>>", " include { phase: TEST }")
        + relu("z", "<<a|s_test>>", "z"),
        [("s_test", "a", "s_test")],
        ["s_train"],
        [],
        [],
        True,
    ),
    "14 the layer's name is another, later blob": (
        DATA + POWER + relu("r", "a", "<<a|r_1>>") + relu("z", "<<a|r_1>>", "r") + relu("y", "r", "y"),
        [("r", "a", "r_1")],
        [],
        [],
        [],
        True,
    ),
    "15 the layer's name is a later eltwise's top": (
        DATA
        + POWER
        + relu("res", "a", "<<a|res_1>>")
        + relu("b", "data", "b")
        + 'layer { name: "e" type: "Eltwise" bottom: "<<a|res_1>>" bottom: "b" top: "res" }\n',
        [("res", "a", "res_1")],
        [],
        [],
        [],
        True,
    ),
    "16 two layers of one name": (
        DATA
        + POWER
        + relu("relu", "a", "<<a|relu>>")
        + 'layer { name: "b" type: "Power" bottom: "<<a|relu>>" top: "b" }\n'
        + relu("relu", "b", "<<b|relu_1>>")
        + relu("z", "<<b|relu_1>>", "z"),
        [("relu", "a", "relu"), ("relu", "b", "relu_1")],
        [],
        [],
        [],
        True,
    ),
    "17 V1 layers": (
        'input: "data" input_dim: 1 input_dim: 2 input_dim: 3 input_dim: 3\n'
        'layers { name: "p" type: POWER bottom: "data" top: "a" }\n'
        'layers { name: "r" type: RELU bottom: "a" top: "<<a|r>>" }\n'
        'layers { name: "z" type: TANH bottom: "<<a|r>>" top: "z" }\n',
        [("r", "a", "r")],
        [],
        [],
        [],
        False,
    ),
    "18 input_dim": (
        'input: "data"\ninput_dim: 1\ninput_dim: 2\ninput_dim: 3\ninput_dim: 3\n'
        + POWER
        + relu("r", "a", "<<a|r>>")
        + relu("z", "<<a|r>>", "z"),
        [("r", "a", "r")],
        [],
        [],
        [],
        True,
    ),
    "19 in place on a net input": (
        DATA + relu("r", "data", "<<data|r>>") + relu("z", "<<data|r>>", "z"),
        [("r", "data", "r")],
        [],
        [],
        [],
        True,
    ),
    "20 unnamed layers": (
        DATA
        + POWER
        + 'layer { type: "ReLU" bottom: "a" top: "<<a|a_inplace>>" }\n'
        + 'layer { type: "Sigmoid" bottom: "<<a|a_inplace>>" top: "<<a|a_inplace_1>>" }\n'
        + relu("z", "<<a|a_inplace_1>>", "z"),
        [("", "a", "a_inplace"), ("", "a", "a_inplace_1")],
        [],
        [],
        [],
        True,
    ),
    "21 dropout with two bottoms": (
        DATA
        + POWER
        + relu("b", "data", "b")
        + 'layer { name: "d" type: "Dropout" bottom: "a" bottom: "b" top: "<<a|d>>" }\n'
        + relu("r", "<<a|d>>", "<<a|r>>"),
        [("d", "a", "d"), ("r", "a", "r")],
        [],
        [],
        [("a", "r")],
        False,
    ),
    "22 flatten shares memory": (
        DATA
        + POWER
        + 'layer { name: "f" type: "Flatten" bottom: "a" top: "f" }\n'
        + relu("r", "f", "<<f|r>>")
        + relu("z", "<<f|r>>", "z")
        + 'layer { name: "q" type: "Power" bottom: "a" top: "q" }\n',
        [("r", "f", "r")],
        [],
        ["q"],
        [],
        False,
    ),
    "23 dropout is the output": (
        DATA + POWER + 'layer { name: "d" type: "Dropout" bottom: "a" top: "<<a|d>>" }\n',
        [("d", "a", "d")],
        [],
        [],
        [("a", "d")],
        True,
    ),
    "24 level and stage rules": (
        DATA
        + POWER
        + "<<"
        + relu("deep", "a", "a", " include { min_level: 1 }")
        + "|>><<"
        + relu("staged", "a", "a", ' include { stage: "x" }')
        + "|>>"
        + relu("not", "a", "<<a|not>>", ' include { not_stage: "x" }'),
        [("not", "a", "not")],
        ["deep", "staged"],
        [],
        [("a", "not")],
        False,
    ),
    "25 exclude": (
        DATA
        + POWER
        + "<<"
        + relu("r", "a", "a", " exclude { phase: TEST }")
        + "|>>"
        + relu("s", "a", "<<a|s>>", " exclude { phase: TRAIN }"),
        [("s", "a", "s")],
        ["r"],
        [],
        [("a", "s")],
        True,
    ),
    "26 nothing to do": (DATA + POWER + relu("r", "a", "r"), [], [], [], [], True),
    "27 unknown and vendor fields survive": (
        DATA
        + 'layer { name: "q" type: "AscendQuant" bottom: "data" top: "a" ascend_quant_param { scale: 0.5 lst: [1, 2] mode: FANCY } '
        + "[my.ext]: 7 }\n"
        + relu("r", "a", "<<a|r>>", ' custom_top: "a" nested < top: "a" >'),
        [("r", "a", "r")],
        [],
        [],
        [("a", "r")],
        False,
    ),
    "28 comments, layout and quotes": (
        "# top: \"a\"\nname: 'n'  # bottom\r\n"
        + DATA
        + POWER
        + "layer{name:'r'type:'ReLU'bottom:'a'# the input\n,top:'<<a|r>>';;}\n".replace(";;", ";")
        + 'layer: <\n\ttype: "Sigmoid" name: "z" bottom: <<"\\x61"|"r">> top: \'z\' >  # end',
        [("r", "a", "r")],
        [],
        [],
        [],
        False,
    ),
    "29 two in place, two tops": (
        DATA
        + POWER
        + relu("b", "data", "b")
        + 'layer { name: "t" type: "TwoInPlace" bottom: "a" bottom: "b" top: "<<a|t_0>>" top: "<<b|t_1>>" }\n'
        + relu("y", "<<a|t_0>>", "y")
        + relu("z", "<<b|t_1>>", "z"),
        [("t", "a", "t_0"), ("t", "b", "t_1")],
        [],
        [],
        [],
        True,
    ),
    "30 names in a list": (
        DATA
        + POWER
        + relu("b", "data", "b")
        + 'layer { name: "t" type: "TwoInPlace" bottom: ["a", "b"] top: [<<"a"|"t_0">>, # first\n <<"b"|"t_1">>] }\n',
        [("t", "a", "t_0"), ("t", "b", "t_1")],
        [],
        [],
        [("a", "t_0"), ("b", "t_1")],
        False,
    ),
    "31 a list of layers loses its first": (
        'layer: [<< { name: "x" type: "ReLU" include { phase: TRAIN } top: "t" },| >> '
        '{ name: "data" type: "Input" top: "data" },\n { name: "r" type: "ReLU" bottom: "data" top: "<<data|r>>" }]\n',
        [("r", "data", "r")],
        ["x"],
        [],
        [("data", "r")],
        False,
    ),
    "32 a list of layers loses its last": (
        'layer: [{ name: "data" type: "Input" top: "data" }<<, { name: "x" type: "ReLU" include { phase: TRAIN } top: "t" }|>>]\n',
        [],
        ["x"],
        [],
        [],
        False,
    ),
    "33 a list of layers loses all": (
        'layer: [{ name: "data" type: "Input" top: "data" }]\n<<layer: [{ name: "x" include { phase: TRAIN } },\n '
        + '{ name: "y" include { phase: TRAIN } }]\n|>># end\n',
        [],
        ["x", "y"],
        [],
        [],
        False,
    ),
    "34 adjacent string pieces": (
        DATA
        + 'layer { name: "p" type: "Power" bottom: "da" \'ta\' top: "a" "b" }\n'
        + 'layer { name: "r" type: "ReLU" bottom: "ab" top: <<"a"|"r">> # why\n \'<<b|>>\' }\n',
        [("r", "ab", "r")],
        [],
        [],
        [("ab", "r")],
        False,
    ),
    "35 the file's own stage counts": (
        'state { stage: "deploy" phase: TRAIN }\n'
        + DATA
        + POWER
        + relu("r", "a", "<<a|r>>", ' include { stage: "deploy" phase: TEST }')
        + "<<"
        + relu("s", "a", "a", ' exclude { stage: "deploy" }')
        + "|>>",
        [("r", "a", "r")],
        ["s"],
        [],
        [("a", "r")],
        False,
    ),
    "36 reshape and a chain of aliases": (
        DATA
        + POWER
        + 'layer { name: "f" type: "Reshape" bottom: "a" top: "f" reshape_param { shape { dim: 0 dim: -1 } } }\n'
        + 'layer { name: "g" type: "Flatten" bottom: "f" top: "g" }\n'
        + relu("r", "g", "<<g|r>>")
        + relu("z", "<<g|r>>", "z")
        + 'layer { name: "q" type: "Power" bottom: "f" top: "q" }\n',
        [("r", "g", "r")],
        [],
        ["q"],
        [],
        False,
    ),
    "37 a comment behind a removed layer stays": (
        DATA
        + '<<layer { name: "x" type: "ReLU" include: { phase: TRAIN } }|>> # about x\n  <<layer { name: "y" include { phase: 0 } }|>> '
        + POWER,
        [],
        ["x", "y"],
        [],
        [],
        False,
    ),
}


def both(text):
    pattern = re.compile(r"<<(.*?)\|(.*?)>>", re.DOTALL)
    return pattern.sub(lambda match: match.group(1), text), pattern.sub(lambda match: match.group(2), text)


@pytest.mark.parametrize("name", sorted(CASES))
def test_expected_result(name):
    text, renamed, removed, warned, outputs, _ = CASES[name]
    before, after = both(text)
    done = deinplace_text(Document(before))
    assert done.text == after
    assert done.renamed == [{"layer": layer, "old": old, "new": new} for layer, old, new in renamed]
    assert done.removed == removed
    assert [warning["layer"] for warning in done.warnings] == warned
    assert done.changed_outputs == [{"old": old, "new": new} for old, new in outputs]


@pytest.mark.parametrize("name", sorted(CASES))
def test_idempotent(name):
    _, after = both(CASES[name][0])
    again = deinplace_text(Document(after))
    assert (again.text, again.renamed, again.removed) == (after, [], [])


def values_by_step(standin, path):
    """Every layer's tops, taken right after the layer ran; the truth."""
    net = standin.Net(str(path), str(path), standin.TEST)
    for number in range(len(net.layers)):
        if net.layers[number].type == "Input":
            top = net._blobs[net._top_ids(number)[0]]
            top.write(np.random.RandomState(5).standard_normal(top.shape))
    out = []
    for number, name in enumerate(net._layer_names):
        net._forward(number, number)
        if net.layers[number].type != "Split":
            out.append((name, [net._blobs[top].data.copy() for top in net._top_ids(number)]))
    return out, net


@pytest.mark.parametrize("name", sorted(name for name, case in CASES.items() if case[-1]))
def test_same_numbers_in_caffe(name, standin, tmp_path):
    """A whole run of the new net holds what the old net computes layer by layer."""
    before, after = both(CASES[name][0])
    (tmp_path / "old.prototxt").write_text(before)
    (tmp_path / "new.prototxt").write_text(after)
    truth, _ = values_by_step(standin, tmp_path / "old.prototxt")
    new, net = values_by_step(standin, tmp_path / "new.prototxt")
    numbers = [number for number, layer in enumerate(net.layers) if layer.type != "Split"]
    whole = [(net._layer_names[number], [net._blobs[top].data for top in net._top_ids(number)]) for number in numbers]
    assert [layer for layer, _ in truth] == [layer for layer, _ in whole]
    for (layer, expected), (_, stepped), (_, got) in zip(truth, new, whole):
        for one, two, three in zip(expected, stepped, got):
            np.testing.assert_array_equal(one, two, err_msg=layer)
            np.testing.assert_array_equal(one, three, err_msg=layer)


def test_flatten_case_really_differs_in_caffe(standin, tmp_path):
    before, after = both(CASES["22 flatten shares memory"][0])
    (tmp_path / "old.prototxt").write_text(before)
    (tmp_path / "new.prototxt").write_text(after)
    old, new = (dict(values_by_step(standin, tmp_path / name)[0]) for name in ("old.prototxt", "new.prototxt"))
    assert not np.array_equal(old["q"][0], new["q"][0])
    np.testing.assert_array_equal(old["r"][0], new["r"][0])


DROPPED = {
    "in place": (
        DATA
        + POWER
        + '<<layer { name: "d" type: "Dropout" bottom: "a" top: "a" dropout_param { dropout_ratio: 0.5 } }\n|>>'
        + relu("z", "a", "z"),
        ["d"],
    ),
    "two in a row, own tops": (
        DATA
        + POWER
        + '<<layer { name: "d" type: "Dropout" bottom: "a" top: "b" }\n|>>'
        + '<<layer { name: "e" type: "Dropout" bottom: "b" top: "c" }\n|>>'
        + relu("z", "<<c|a>>", "z"),
        ["d", "e"],
    ),
    "reader of the older version": (
        DATA
        + POWER
        + '<<layer { name: "d" type: "Dropout" bottom: "a" top: "b" }\n|>>'
        + relu("r", "<<b|a>>", "<<b|r>>")
        + relu("side", "a", "side")
        + relu("z", "<<b|r>>", "z"),
        ["d"],
    ),
    "after an in-place layer": (
        DATA
        + POWER
        + relu("r", "a", "<<a|r>>")
        + '<<layer { name: "d" type: "Dropout" bottom: "a" top: "b" }\n|>>'
        + relu("z", "<<b|r>>", "z"),
        ["d"],
    ),
    "kept: it is the output": (DATA + POWER + 'layer { name: "d" type: "Dropout" bottom: "a" top: "d" }\n', []),
    "kept: a fork's field": (
        DATA
        + POWER
        + 'layer { name: "d" type: "Dropout" bottom: "a" top: "b" dropout_param { scale_train: false } }\n'
        + relu("z", "b", "z"),
        [],
    ),
    "kept: a fork's field of the layer": (
        DATA + POWER + 'layer { name: "d" type: "Dropout" bottom: "a" top: "b" sample_weights_test: true }\n' + relu("z", "b", "z"),
        [],
    ),
}


@pytest.mark.parametrize("name", sorted(DROPPED))
def test_drop_dropout(name):
    text, removed = DROPPED[name]
    before, after = both(text)
    done = deinplace_text(Document(before), drop_dropout=True)
    assert (done.text, done.removed) == (after, removed)


REFUSED = {
    "empty": ("", "empty"),
    "only a comment": ("# nothing\n", "empty"),
    "a solver": ('net: "train.prototxt"\nbase_lr: 0.01\n', "solver"),
    "no layers": ('name: "n"\ninput: "data"\n', "without layers"),
    "nothing of this phase": ('layer { name: "x" include { phase: TRAIN } }', "phase TEST"),
    "V0": ('layers { layer { name: "c" type: "conv" } bottom: "data" top: "c" }', "V0"),
    "both kinds": (DATA + 'layers { name: "r" type: RELU bottom: "data" top: "r" }', "V1"),
    "a blob made twice": (DATA + relu("r", "data", "x") + relu("s", "data", "x"), "made both by r and by s"),
    "in place at another index": (DATA + POWER + 'layer { name: "e" type: "Eltwise" bottom: "data" bottom: "a" top: "a" }', "made"),
    "one layer, one blob twice": (DATA + 'layer { name: "s" type: "Slice" bottom: "data" top: "x" top: "x" }', "twice by s"),
    "a top like a net input": ('input: "data"\nlayer { name: "r" type: "ReLU" top: "data" }', "made"),
    "include and exclude": (relu("r", "a", "b", " include { phase: TEST } exclude { phase: TRAIN }"), "include rules and exclude"),
    "not closed": ('layer { name: "a"\n', "not closed"),
    "closed twice": ('layer { name: "a" } }\n', "field name"),
    "a string over the line's end": ('layer { name: "a\n" }', "line 1"),
    "a blob without quotes": ('layer { name: "a" top: data }', "quoted string"),
    "no value": ("name:\n", "line 2"),
    "too deep": ("layer " + "{ a " * 200 + "}" * 200, "deeper"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused(name):
    text, reason = REFUSED[name]
    with pytest.raises(InputError, match=re.escape(reason)) as caught:
        deinplace_text(Document(text))
    assert caught.value.exit_code == 4


def test_dropout_with_the_train_phase_of_its_own_is_kept():
    text = DATA + POWER + 'layer { name: "d" type: "Dropout" bottom: "a" top: "a" phase: %s }\n' + relu("t", "a", "t")
    assert deinplace_text(Document(text % "TRAIN"), drop_dropout=True).removed == []
    assert deinplace_text(Document(text % "TEST"), drop_dropout=True).removed == ["d"]


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        ('type: "AbsVal" bottom: "a" top: "a"', "works in place, which Caffe itself refuses for AbsVal"),
        ('type: "Eltwise" bottom: "a" bottom: "a" top: "a" eltwise_param { operation: PROD }', "reads blob a twice and writes over it"),
        ('type: "Python" bottom: "a" top: "a"', "is a Python layer in place"),
    ],
)
def test_what_caffe_does_not_do_in_place_is_told(layer, told):
    done = deinplace_text(Document(DATA + POWER + 'layer { name: "p" %s }\n' % layer + relu("t", "a", "t")))
    assert [entry["layer"] for entry in done.warnings] == ["p"] and told in done.warnings[0]["message"]
    assert done.renamed == [{"layer": "p", "old": "a", "new": "p"}]


def test_a_blob_that_nothing_makes_is_told():
    done = deinplace_text(Document(DATA + relu("loss", "label", "loss") + relu("again", "label", "again")))
    assert [entry["layer"] for entry in done.warnings] == ["loss"]
    assert "reads blob label, which no layer before it makes in phase TEST" in done.warnings[0]["message"]


def test_quotation_marks_stay():
    text = "layer { name: 'd' type: 'Input' top: 'it\\'s' }\nlayer { name: 'x\\'y\"' type: 'ReLU' bottom: 'it' '\\'s' top: %s }\n"
    done = deinplace_text(Document(text % "'it' '\\'s'"))
    assert done.text == text % "'x\\'y\"' ''"


def test_train_phase_level_and_stages():
    text = (
        DATA
        + POWER
        + relu("r", "a", "a", " include { phase: TRAIN }")
        + relu("s", "a", "a", ' include { min_level: 2 max_level: 3 stage: "x" stage: "y" }')
    )
    train = deinplace_text(Document(text), phase="TRAIN")
    assert (train.removed, [entry["layer"] for entry in train.renamed]) == (["s"], ["r"])
    staged = deinplace_text(Document(text), level=2, stages=("x", "y", "z"))
    assert (staged.removed, [entry["layer"] for entry in staged.renamed]) == (["r"], ["s"])
    assert deinplace_text(Document(text), level=2, stages=("x",)).removed == ["r", "s"]
    assert deinplace_text(Document(text), level=4, stages=("x", "y")).removed == ["r", "s"]


def test_files(tmp_path):
    model = tmp_path / "net.prototxt"
    data = (DATA + POWER + relu("r", "a", "a")).encode() + b"# \xff\xfe not UTF-8\r\n"
    model.write_bytes(data)
    path, done = deinplace_file(str(model), report=str(tmp_path / "r.json"))
    assert path == str(tmp_path / "new_net.prototxt")
    assert (tmp_path / "new_net.prototxt").read_bytes() == data.replace(b'top: "a" }\n#', b'top: "r" }\n#')
    assert model.read_bytes() == data
    with pytest.raises(UsageError, match="exists already"):
        deinplace_file(str(model))
    deinplace_file(str(model), force=True, report=str(tmp_path / "r.json"))
    link = tmp_path / "link.prototxt"
    link.symlink_to(model)
    hard = tmp_path / "hard.prototxt"
    os.link(str(model), str(hard))
    for output in (model, link, hard):
        with pytest.raises(UsageError, match="input itself"):
            deinplace_file(str(model), str(output), force=True)
        with pytest.raises(UsageError, match="input itself"):
            deinplace_file(str(model), str(tmp_path / "other"), report=str(output), force=True)
    with pytest.raises(MissingPath):
        deinplace_file(str(model), str(tmp_path / "no" / "such"))
    with pytest.raises(MissingPath):
        deinplace_file(str(tmp_path / "missing"))
    (tmp_path / "text").write_text("keep me")
    with pytest.raises(UsageError, match="exists already") as caught:
        deinplace_file(str(model), str(tmp_path / "x"), report=str(tmp_path / "text"))
    assert "`report`" in caught.value.hint
    assert model.read_bytes() == data
    assert not (tmp_path / "x").exists()
    assert sorted(os.listdir(str(tmp_path))) == ["hard.prototxt", "link.prototxt", "net.prototxt", "new_net.prototxt", "r.json", "text"]


def test_thousands_of_layers_of_one_name():
    text = DATA + POWER + "".join(relu("r", "a", "a") for _ in range(3000))
    done = deinplace_text(Document(text))
    assert [entry["new"] for entry in done.renamed] == ["r"] + ["r_%d" % number for number in range(1, 3000)]


def test_a_free_name_is_found_without_counting_through_all_the_taken_ones():
    class Counting(set):
        asked = 0

        def __contains__(self, name):
            Counting.asked += 1
            return set.__contains__(self, name)

    layer = Net(Document(DATA + relu("r", "data", "data")), State()).layers[1]
    used, tried = Counting(["r"]), {}
    for _ in range(3000):
        used.add(_new_name(layer, 0, used, tried))
    assert len(used) == 3001 and Counting.asked < 4 * 3000


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "renamed", "removed"),
    [
        ("caffenet_deploy", ["relu1", "relu2", "relu3", "relu4", "relu5", "relu6", "drop6", "relu7", "drop7"], []),
        ("cifar10_full_train_test", ["relu1", "relu2", "relu3"], ["cifar"]),
        ("lenet_train_test", ["relu1"], ["mnist"]),
    ],
)
def test_public_nets(name, renamed, removed, shared_dir, tmp_path):
    model = os.path.join(shared_dir, "data", "caffe", "nets", name + ".prototxt")
    path, done = deinplace_file(model, str(tmp_path / "new"))
    assert [entry["new"] for entry in done.renamed] == renamed
    assert done.removed == removed
    assert done.warnings == []
    with open(model, encoding="utf-8") as stream:
        before = stream.read()
    with open(path, encoding="utf-8") as stream:
        after = stream.read()
    gone = sum(1 for line in before.splitlines() if line.strip()) - sum(1 for line in after.splitlines() if line.strip())
    assert gone == 17 * len(removed)
