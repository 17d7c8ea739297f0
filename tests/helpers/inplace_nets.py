"""Nets with layers in place, each with what `deinplace` makes of it: chains, branches, names, and
the forms that a prototxt may have.

In the texts ``<<old|new>>`` stands for ``old`` in the model and ``new`` in the expected result.
"""

from __future__ import annotations

import typing

DATA = (
    'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 3 '
    "dim: 3 } } }\n"
)
POWER = 'layer { name: "a" type: "Power" bottom: "data" top: "a" power_param { shift: -0.1 } }\n'


def relu(name, bottom, top, extra=""):
    return 'layer { name: "%s" type: "ReLU" bottom: "%s" top: "%s"%s }\n' % (
        name,
        bottom,
        top,
        extra,
    )


class Net(typing.NamedTuple):
    """One net: ``renamed`` are (layer, old, new), ``warned`` layers, ``outputs`` (old, new);
    ``in_caffe``: Caffe can run it.
    """

    text: str
    renamed: typing.Sequence[typing.Tuple[str, str, str]] = ()
    removed: typing.Sequence[str] = ()
    warned: typing.Sequence[str] = ()
    outputs: typing.Sequence[typing.Tuple[str, str]] = ()
    in_caffe: bool = False


NETS = {
    "01 a chain of four": Net(
        DATA
        + POWER
        + relu("r1", "a", "<<a|r1>>")
        + relu("r2", "<<a|r1>>", "<<a|r2>>")
        + relu("r3", "<<a|r2>>", "<<a|r3>>")
        + relu("r4", "<<a|r3>>", "<<a|r4>>"),
        renamed=[("r1", "a", "r1"), ("r2", "a", "r2"), ("r3", "a", "r3"), ("r4", "a", "r4")],
        outputs=[("a", "r4")],
        in_caffe=True,
    ),
    "02 many consumers": Net(
        DATA
        + POWER
        + relu("r", "a", "<<a|r>>")
        + relu("x", "<<a|r>>", "x")
        + relu("y", "<<a|r>>", "y")
        + relu("z", "<<a|r>>", "z"),
        renamed=[("r", "a", "r")],
        in_caffe=True,
    ),
    "03 a reader before the in-place layer": Net(
        DATA
        + POWER
        + relu("early", "a", "early")
        + relu("r", "a", "<<a|r>>")
        + relu("late", "<<a|r>>", "late"),
        renamed=[("r", "a", "r")],
        warned=["r"],
    ),
    "04 two branches": Net(
        DATA
        + POWER
        + relu("r", "a", "<<a|r>>")
        + 'layer { name: "b" type: "Power" bottom: "data" top: "b" }\n'
        + relu("s", "b", "<<b|s>>")
        + 'layer { name: "e" type: "Eltwise" bottom: "<<a|r>>" bottom: "<<b|s>>" top: "e" }\n',
        renamed=[("r", "a", "r"), ("s", "b", "s")],
        in_caffe=True,
    ),
    "05 dropout with its own top and a side reader": Net(
        DATA
        + POWER
        + 'layer { name: "d" type: "Dropout" bottom: "a" top: "b" }\n'
        + relu("r", "b", "<<b|r>>")
        + relu("side", "a", "side"),
        renamed=[("r", "b", "r")],
        outputs=[("b", "r")],
        in_caffe=True,
    ),
    "06 two dropouts in a row": Net(
        DATA
        + POWER
        + 'layer { name: "d1" type: "Dropout" bottom: "a" top: "<<a|d1>>" }\n'
        + 'layer { name: "d2" type: "Dropout" bottom: "<<a|d1>>" top: "<<a|d2>>" }\n'
        + relu("r", "<<a|d2>>", "r"),
        renamed=[("d1", "a", "d1"), ("d2", "a", "d2")],
        in_caffe=True,
    ),
    "08 the in-place layer has its blob's name": Net(
        DATA
        + 'layer { name: "p" type: "Power" bottom: "data" top: "a" }\n'
        + relu("a", "a", "<<a|a_1>>")
        + relu("z", "<<a|a_1>>", "z"),
        renamed=[("a", "a", "a_1")],
        in_caffe=True,
    ),
    "09 eltwise product in place": Net(
        DATA
        + POWER
        + relu("b", "data", "b")
        + 'layer { name: "e" type: "Eltwise" bottom: "a" bottom: "b" top: "<<a|e>>" '
        "eltwise_param { operation: PROD } }\n" + relu("z", "<<a|e>>", "z"),
        renamed=[("e", "a", "e")],
        in_caffe=True,
    ),
    "10 eltwise sum in place": Net(
        DATA
        + POWER
        + relu("b", "data", "b")
        + 'layer { name: "e" type: "Eltwise" bottom: "a" bottom: "b" top: "<<a|e>>" }\n'
        + relu("z", "<<a|e>>", "z"),
        renamed=[("e", "a", "e")],
        warned=["e"],
    ),
    "11 scale with two bottoms in place": Net(
        DATA
        + POWER
        + relu("b", "data", "b")
        + 'layer { name: "s" type: "Scale" bottom: "a" bottom: "b" top: "<<a|s>>" }\n',
        renamed=[("s", "a", "s")],
        outputs=[("a", "s")],
        in_caffe=True,
    ),
    "12 an in-place layer of TRAIN only": Net(
        DATA
        + POWER
        + '<<layer { name: "noise" type: "Power" bottom: "a" top: "a" include { phase: TRAIN } '
        "power_param { shift: 1000 } }\n|>>"
        + relu("r", "a", "<<a|r>>")
        + relu("z", "<<a|r>>", "z"),
        renamed=[("r", "a", "r")],
        removed=["noise"],
        in_caffe=True,
    ),
    "13 in-place layers of TRAIN and TEST": Net(
        DATA
        + POWER
        + "<<"
        + relu("s_train", "a", "a", " include { phase: TRAIN }")
        + "|>>"
        + relu("s_test", "a", "<<a|s_test>>", " include { phase: TEST }")
        + relu("z", "<<a|s_test>>", "z"),
        renamed=[("s_test", "a", "s_test")],
        removed=["s_train"],
        in_caffe=True,
    ),
    "14 the layer's name is another, later blob": Net(
        DATA
        + POWER
        + relu("r", "a", "<<a|r_1>>")
        + relu("z", "<<a|r_1>>", "r")
        + relu("y", "r", "y"),
        renamed=[("r", "a", "r_1")],
        in_caffe=True,
    ),
    "15 the layer's name is a later eltwise's top": Net(
        DATA
        + POWER
        + relu("res", "a", "<<a|res_1>>")
        + relu("b", "data", "b")
        + 'layer { name: "e" type: "Eltwise" bottom: "<<a|res_1>>" bottom: "b" top: "res" }\n',
        renamed=[("res", "a", "res_1")],
        in_caffe=True,
    ),
    "16 two layers of one name": Net(
        DATA
        + POWER
        + relu("relu", "a", "<<a|relu>>")
        + 'layer { name: "b" type: "Power" bottom: "<<a|relu>>" top: "b" }\n'
        + relu("relu", "b", "<<b|relu_1>>")
        + relu("z", "<<b|relu_1>>", "z"),
        renamed=[("relu", "a", "relu"), ("relu", "b", "relu_1")],
        in_caffe=True,
    ),
    "17 V1 layers": Net(
        'input: "data" input_dim: 1 input_dim: 2 input_dim: 3 input_dim: 3\n'
        'layers { name: "p" type: POWER bottom: "data" top: "a" }\n'
        'layers { name: "r" type: RELU bottom: "a" top: "<<a|r>>" }\n'
        'layers { name: "z" type: TANH bottom: "<<a|r>>" top: "z" }\n',
        renamed=[("r", "a", "r")],
    ),
    "18 input_dim": Net(
        'input: "data"\ninput_dim: 1\ninput_dim: 2\ninput_dim: 3\ninput_dim: 3\n'
        + POWER
        + relu("r", "a", "<<a|r>>")
        + relu("z", "<<a|r>>", "z"),
        renamed=[("r", "a", "r")],
        in_caffe=True,
    ),
    "19 in place on a net input": Net(
        DATA + relu("r", "data", "<<data|r>>") + relu("z", "<<data|r>>", "z"),
        renamed=[("r", "data", "r")],
        in_caffe=True,
    ),
    "20 unnamed layers": Net(
        DATA
        + POWER
        + 'layer { type: "ReLU" bottom: "a" top: "<<a|a_inplace>>" }\n'
        + 'layer { type: "Sigmoid" bottom: "<<a|a_inplace>>" top: "<<a|a_inplace_1>>" }\n'
        + relu("z", "<<a|a_inplace_1>>", "z"),
        renamed=[("", "a", "a_inplace"), ("", "a", "a_inplace_1")],
        in_caffe=True,
    ),
    "21 dropout with two bottoms": Net(
        DATA
        + POWER
        + relu("b", "data", "b")
        + 'layer { name: "d" type: "Dropout" bottom: "a" bottom: "b" top: "<<a|d>>" }\n'
        + relu("r", "<<a|d>>", "<<a|r>>"),
        renamed=[("d", "a", "d"), ("r", "a", "r")],
        outputs=[("a", "r")],
    ),
    "22 flatten shares memory": Net(
        DATA
        + POWER
        + 'layer { name: "f" type: "Flatten" bottom: "a" top: "f" }\n'
        + relu("r", "f", "<<f|r>>")
        + relu("z", "<<f|r>>", "z")
        + 'layer { name: "q" type: "Power" bottom: "a" top: "q" }\n',
        renamed=[("r", "f", "r")],
        warned=["q"],
    ),
    "23 dropout is the output": Net(
        DATA + POWER + 'layer { name: "d" type: "Dropout" bottom: "a" top: "<<a|d>>" }\n',
        renamed=[("d", "a", "d")],
        outputs=[("a", "d")],
        in_caffe=True,
    ),
    "24 level and stage rules": Net(
        DATA
        + POWER
        + "<<"
        + relu("deep", "a", "a", " include { min_level: 1 }")
        + "|>><<"
        + relu("staged", "a", "a", ' include { stage: "x" }')
        + "|>>"
        + relu("not", "a", "<<a|not>>", ' include { not_stage: "x" }'),
        renamed=[("not", "a", "not")],
        removed=["deep", "staged"],
        outputs=[("a", "not")],
    ),
    "25 exclude": Net(
        DATA
        + POWER
        + "<<"
        + relu("r", "a", "a", " exclude { phase: TEST }")
        + "|>>"
        + relu("s", "a", "<<a|s>>", " exclude { phase: TRAIN }"),
        renamed=[("s", "a", "s")],
        removed=["r"],
        outputs=[("a", "s")],
        in_caffe=True,
    ),
    "26 nothing to do": Net(DATA + POWER + relu("r", "a", "r"), in_caffe=True),
    "27 unknown and vendor fields survive": Net(
        DATA + 'layer { name: "q" type: "AscendQuant" bottom: "data" top: "a" ascend_quant_param { '
        "scale: 0.5 lst: [1, 2] mode: FANCY } "
        + "[my.ext]: 7 }\n"
        + relu("r", "a", "<<a|r>>", ' custom_top: "a" nested < top: "a" >'),
        renamed=[("r", "a", "r")],
        outputs=[("a", "r")],
    ),
    "28 comments, layout and quotes": Net(
        "# top: \"a\"\nname: 'n'  # bottom\r\n"
        + DATA
        + POWER
        + "layer{name:'r'type:'ReLU'bottom:'a'# the input\n,top:'<<a|r>>';;}\n".replace(";;", ";")
        + 'layer: <\n\ttype: "Sigmoid" name: "z" bottom: <<"\\x61"|"r">> top: \'z\' >  # end',
        renamed=[("r", "a", "r")],
    ),
    "29 two in place, two tops": Net(
        DATA
        + POWER
        + relu("b", "data", "b")
        + 'layer { name: "t" type: "TwoInPlace" bottom: "a" bottom: "b" top: "<<a|t_0>>" top: '
        '"<<b|t_1>>" }\n' + relu("y", "<<a|t_0>>", "y") + relu("z", "<<b|t_1>>", "z"),
        renamed=[("t", "a", "t_0"), ("t", "b", "t_1")],
        in_caffe=True,
    ),
    "30 names in a list": Net(
        DATA
        + POWER
        + relu("b", "data", "b")
        + 'layer { name: "t" type: "TwoInPlace" bottom: ["a", "b"] top: [<<"a"|"t_0">>, # '
        'first\n <<"b"|"t_1">>] }\n',
        renamed=[("t", "a", "t_0"), ("t", "b", "t_1")],
        outputs=[("a", "t_0"), ("b", "t_1")],
    ),
    "31 a list of layers loses its first": Net(
        'layer: [<< { name: "x" type: "ReLU" include { phase: TRAIN } top: "t" },| >> '
        '{ name: "data" type: "Input" top: "data" },\n { name: "r" type: "ReLU" bottom: '
        '"data" top: "<<data|r>>" }]\n',
        renamed=[("r", "data", "r")],
        removed=["x"],
        outputs=[("data", "r")],
    ),
    "32 a list of layers loses its last": Net(
        'layer: [{ name: "data" type: "Input" top: "data" }<<, { name: "x" type: "ReLU" '
        'include { phase: TRAIN } top: "t" }|>>]\n',
        removed=["x"],
    ),
    "33 a list of layers loses all": Net(
        'layer: [{ name: "data" type: "Input" top: "data" }]\n<<layer: [{ name: "x" include { '
        "phase: TRAIN } },\n " + '{ name: "y" include { phase: TRAIN } }]\n|>># end\n',
        removed=["x", "y"],
    ),
    "34 adjacent string pieces": Net(
        DATA
        + 'layer { name: "p" type: "Power" bottom: "da" \'ta\' top: "a" "b" }\n'
        + 'layer { name: "r" type: "ReLU" bottom: "ab" top: <<"a"|"r">> # why\n \'<<b|>>\' }\n',
        renamed=[("r", "ab", "r")],
        outputs=[("ab", "r")],
    ),
    "35 the file's own stage counts": Net(
        'state { stage: "deploy" phase: TRAIN }\n'
        + DATA
        + POWER
        + relu("r", "a", "<<a|r>>", ' include { stage: "deploy" phase: TEST }')
        + "<<"
        + relu("s", "a", "a", ' exclude { stage: "deploy" }')
        + "|>>",
        renamed=[("r", "a", "r")],
        removed=["s"],
        outputs=[("a", "r")],
    ),
    "36 reshape and a chain of aliases": Net(
        DATA
        + POWER
        + 'layer { name: "f" type: "Reshape" bottom: "a" top: "f" reshape_param { shape { dim: '
        "0 dim: -1 } } }\n"
        + 'layer { name: "g" type: "Flatten" bottom: "f" top: "g" }\n'
        + relu("r", "g", "<<g|r>>")
        + relu("z", "<<g|r>>", "z")
        + 'layer { name: "q" type: "Power" bottom: "f" top: "q" }\n',
        renamed=[("r", "g", "r")],
        warned=["q"],
    ),
    "37 a comment behind a removed layer stays": Net(
        DATA
        + '<<layer { name: "x" type: "ReLU" include: { phase: TRAIN } }|>> # about x\n  <<layer '
        '{ name: "y" include { phase: 0 } }|>> ' + POWER,
        removed=["x", "y"],
    ),
}
