"""Nets with layers in place: the forms that a prototxt may have, as :mod:`inplace_nets` has its chains."""

from inplace_nets import DATA, POWER, relu

FORMS = {
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
